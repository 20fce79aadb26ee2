// Package redistest starts real Redis servers for tests: each on a free port,
// in the test's own directory, gone when the test ends. A missing redis-server
// fails the test, it is never skipped.
package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Server is one redis-server process. Its methods fail the test on errors; it
// is not safe for concurrent use but for [Server.Do].
type Server struct {
	Addr string // 127.0.0.1:port
	Port int
	Dir  string

	t    testing.TB
	args []string
	auth []string // AUTH that Do sends first
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	log  *os.File
}

// Start starts a server with further command line arguments, such as
// "--maxmemory", "1mb", and waits until it answers.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := New(t, args...)
	s.Run()
	return s
}

// New prepares a server that does not run yet.
func New(t testing.TB, args ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatal("redis-server is missing: apt-get install redis-server")
	}
	port := freePort(t)
	return &Server{Addr: "127.0.0.1:" + strconv.Itoa(port), Port: port, Dir: t.TempDir(), t: t, args: args}
}

// Auth sets what Do logs in with.
func (s *Server) Auth(userAndPassword ...string) { s.auth = append([]string{"AUTH"}, userAndPassword...) }

// SetArgs replaces the further arguments for the next start.
func (s *Server) SetArgs(args ...string) { s.args = args }

// Run starts the process, again after [Server.Kill] with the same port and
// data, and waits until it answers.
func (s *Server) Run() {
	s.t.Helper()
	s.RunNoWait()
	s.WaitReady()
}

// RunNoWait starts the process.
func (s *Server) RunNoWait() {
	s.t.Helper()
	args := append([]string{
		"--port", strconv.Itoa(s.Port), "--bind", "127.0.0.1", "--dir", s.Dir,
		"--save", "", "--appendonly", "no", "--loglevel", "warning",
	}, s.args...)
	s.exec(args)
}

func (s *Server) exec(args []string) {
	s.t.Helper()
	log, err := os.OpenFile(filepath.Join(s.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command("redis-server", args...)
	cmd.Stdout, cmd.Stderr = log, log
	// The server must not outlive a test binary that crashes.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := startLocked(cmd); err != nil {
		s.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	s.cmd, s.done, s.log = cmd, done, log
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill() // also when stopped by SIGSTOP
		<-done
		_ = log.Close()
	})
}

// spawner starts processes: Pdeathsig is tied to the thread that forked, so
// that one must live as long as the tests.
var spawner = sync.OnceValue(func() chan<- func() {
	c := make(chan func())
	go func() {
		lockThread()
		for f := range c {
			f()
		}
	}()
	return c
})

func startLocked(cmd *exec.Cmd) error {
	errs := make(chan error)
	spawner() <- func() { errs <- cmd.Start() }
	return <-errs
}

// WaitReady waits until the server answers PING, with an error or without.
func (s *Server) WaitReady() {
	s.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		select {
		case <-s.done:
			s.t.Fatalf("redis-server ended:\n%s", s.logText())
		default:
		}
		if r, err := s.Try("PING"); err == nil && !strings.HasPrefix(r, "-LOADING") {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	s.t.Fatalf("redis-server does not answer:\n%s", s.logText())
}

// Kill ends the process at once, as kill -9.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	<-s.done
}

// Stop freezes the process, Continue thaws it.
func (s *Server) Stop() { s.signal(syscall.SIGSTOP) }

// Continue thaws a stopped process.
func (s *Server) Continue() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// Do runs one command on a connection of its own and returns the reply, nested
// arrays flattened to lines. An error reply fails the test.
func (s *Server) Do(args ...string) string {
	s.t.Helper()
	r, err := s.Try(args...)
	if err != nil || strings.HasPrefix(r, "-") {
		s.t.Fatalf("redis %q: %s %v", args, r, err)
	}
	return r
}

// Try is Do that returns errors; an error reply is a string that begins with
// "-".
func (s *Server) Try(args ...string) (string, error) {
	c, err := net.DialTimeout("tcp", s.Addr, 5*time.Second)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	r := bufio.NewReader(c)
	if s.auth != nil {
		if _, err := roundTrip(c, r, s.auth); err != nil {
			return "", err
		}
	}
	return roundTrip(c, r, args)
}

func roundTrip(c net.Conn, r *bufio.Reader, args []string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := c.Write([]byte(b.String())); err != nil {
		return "", err
	}
	return readReply(r)
}

var errProtocol = errors.New("redistest: not a RESP2 reply")

func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return "", errProtocol
	}
	switch kind, rest := line[0], line[1:]; kind {
	case '+', ':':
		return rest, nil
	case '-':
		return line, nil
	case '$':
		return readBulk(r, rest)
	case '*':
		n, err := strconv.Atoi(rest)
		if err != nil {
			return "", errProtocol
		}
		var items []string
		for range n {
			item, err := readReply(r)
			if err != nil {
				return "", err
			}
			items = append(items, item)
		}
		return strings.Join(items, "\n"), nil
	default:
		return "", errProtocol
	}
}

func readBulk(r *bufio.Reader, length string) (string, error) {
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 {
		return "", err // nil: the null reply
	}
	buf := make([]byte, n+2)
	for read := 0; read < len(buf); {
		m, err := r.Read(buf[read:])
		if err != nil {
			return "", err
		}
		read += m
	}
	return string(buf[:n]), nil
}

func (s *Server) logText() string {
	b, _ := os.ReadFile(filepath.Join(s.Dir, "log"))
	return string(b)
}

// freePort finds a port that is free now, below the range of outgoing
// connections, and whose cluster bus port is free too.
func freePort(t testing.TB) int {
	t.Helper()
	for range 200 {
		port := 10000 + int(nextPort())
		if free(port) && free(port+10000) {
			return port
		}
	}
	t.Fatal("redistest: no free port")
	return 0
}

func free(port int) bool {
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}
