//go:build linux

// Package redistest starts real Redis servers for tests: each on a free port,
// in the test's own directory, gone when the test ends. A missing redis-server
// fails the test, it is never skipped. Outside of tests, `bench redis --faults`
// uses it with a T of its own.
package redistest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// Server is one redis-server process. Its methods fail the test on errors; it
// is not safe for concurrent use but for [Server.Do].
type Server struct {
	Addr string // 127.0.0.1:port
	Port int
	Dir  string

	t       testkit.T
	program string
	args    []string
	env     []string // beside that of this process
	auth    []string // AUTH that Do sends first
	cmd     *exec.Cmd
	done    chan struct{} // closed when the process has ended
	log     *os.File
}

// Start starts a server with further command line arguments, such as
// "--maxmemory", "1mb", and waits until it answers.
func Start(t testkit.T, args ...string) *Server {
	t.Helper()
	s := New(t, args...)
	s.Run()
	return s
}

// New prepares a server that does not run yet.
func New(t testkit.T, args ...string) *Server {
	t.Helper()
	program := "redis-server"
	if p, ok := t.(interface{ RedisServer() string }); ok { // of a T that is no test
		program = p.RedisServer()
	}
	if _, err := exec.LookPath(program); err != nil {
		t.Fatal("redis-server is missing: apt-get install redis-server")
	}
	port := testkit.FreePort(t)
	return &Server{program: program, Addr: "127.0.0.1:" + strconv.Itoa(port), Port: port, Dir: t.TempDir(), t: t, args: args}
}

// Auth sets what Do logs in with.
func (s *Server) Auth(userAndPassword ...string) {
	s.auth = append([]string{"AUTH"}, userAndPassword...)
}

// SetArgs replaces the further arguments for the next start.
func (s *Server) SetArgs(args ...string) { s.args = args }

// SetEnv adds to the environment of the next start.
func (s *Server) SetEnv(env ...string) { s.env = env }

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
	cmd := exec.Command(s.program, args...)
	cmd.Env = append(cmd.Environ(), s.env...)
	cmd.Stdout, cmd.Stderr = log, log
	// The server must not outlive a test binary that crashes.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := StartLocked(cmd); err != nil {
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

// WaitReady waits until the server answers PING, with an error or without.
func (s *Server) WaitReady() {
	s.t.Helper()
	deadline := testkit.Deadline(s.t)
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

func (s *Server) logText() string {
	b, _ := os.ReadFile(filepath.Join(s.Dir, "log"))
	return string(b)
}
