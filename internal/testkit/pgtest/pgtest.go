//go:build linux

// Package pgtest starts real PostgreSQL servers for tests: each on a free port with
// a cluster of its own, gone when the test ends. A missing PostgreSQL fails the test,
// it is never skipped. PostgreSQL refuses to run as root; there it runs as the user
// postgres, or nobody.
package pgtest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
	"github.com/jackc/pgx/v5"
)

// Server is one PostgreSQL. Its methods fail the test on errors; it is not safe for
// concurrent use but for [Server.Do] and [Server.Try].
type Server struct {
	Addr string // 127.0.0.1:port
	Port int
	Dir  string // of the data

	t    testkit.T
	bin  string // directory of the programs
	args []string
	cmd  *exec.Cmd
	done chan struct{}            // closed when the postmaster has ended
	idle atomic.Pointer[pgx.Conn] // of Try; nil while it is used
}

// Start starts a server with further settings, such as "max_connections=5", and
// waits until it answers. Everybody may log in as user postgres without a password.
// Its data are in memory, where there is room, and segments of its log are of 1 MiB.
func Start(t testkit.T, settings ...string) *Server {
	t.Helper()
	s := newServer(t, quickDir(), settings)
	s.newData()
	s.Run()
	return s
}

// StartOnDisk is [Start] for who measures: on the disk, and laid out as PostgreSQL does by
// itself.
func StartOnDisk(t testkit.T, settings ...string) *Server {
	t.Helper()
	s := newServer(t, os.TempDir(), settings)
	s.initdb("--username=postgres", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C")
	s.Run()
	return s
}

// newServer is a server without data.
func newServer(t testkit.T, parent string, settings []string) *Server {
	t.Helper()
	dir := newDir(t, parent)
	bin, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	port := testkit.FreePort(t)
	s := &Server{Addr: "127.0.0.1:" + strconv.Itoa(port), Port: port, Dir: filepath.Join(dir, "data"), t: t, bin: bin}
	s.Set(settings...)
	if c := asUser(t).Credential; c != nil {
		if err := os.Chown(dir, int(c.Uid), int(c.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// Set replaces the further settings for the next start.
func (s *Server) Set(settings ...string) {
	s.args = nil
	for _, setting := range settings {
		s.args = append(s.args, "-c", setting)
	}
}

// Run starts the process, again after [Server.Kill] with the same port and data, and
// waits until it answers.
func (s *Server) Run() {
	s.t.Helper()
	s.RunNoWait()
	s.WaitReady()
}

// RunNoWait starts the process.
func (s *Server) RunNoWait() {
	s.t.Helper()
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	args := append([]string{
		"-D", s.Dir, "-p", strconv.Itoa(s.Port), "-h", "127.0.0.1", "-k", filepath.Dir(s.Dir),
		"-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "max_connections=60", "-c", "autovacuum_naptime=5s",
	}, s.args...)
	cmd := exec.CommandContext(context.Background(), filepath.Join(s.bin, "postgres"), args...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr, cmd.Dir = log, log, asUser(s.t), filepath.Dir(s.Dir)
	if err := redistest.StartLocked(cmd); err != nil {
		s.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	s.cmd, s.done = cmd, done
	hangUp(s.idle.Swap(nil)) // of the process before
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT) // should it be stopped
		_ = cmd.Process.Signal(syscall.SIGQUIT)
		<-done
		hangUp(s.idle.Swap(nil))
	})
}

func (s *Server) logPath() string { return filepath.Join(filepath.Dir(s.Dir), "log") }

// WaitReady waits until the server answers.
func (s *Server) WaitReady() {
	s.t.Helper()
	for end := testkit.Deadline(s.t); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		select {
		case <-s.done:
			s.t.Fatalf("postgres ended:\n%s", s.logText())
		default:
		}
		if _, err := s.Try("SELECT 1"); err == nil {
			return
		}
	}
	s.t.Fatalf("postgres does not answer:\n%s", s.logText())
}

func (s *Server) logText() string {
	b, _ := os.ReadFile(s.logPath())
	return string(b[max(0, bytes.LastIndexByte(b[:max(0, len(b)-8000)], '\n')):])
}

// Kill ends the server at once, as if it had crashed: the next start recovers, and
// what was committed without waiting for the disk may be lost.
func (s *Server) Kill() {
	s.t.Helper()
	s.signal(syscall.SIGQUIT)
	<-s.done
}

// Stop freezes the processes that serve connections, Continue thaws them.
func (s *Server) Stop() { s.backends(syscall.SIGSTOP) }

// Continue thaws what [Server.Stop] froze.
func (s *Server) Continue() { s.backends(syscall.SIGCONT) }

// backends signals the postmaster and its children.
func (s *Server) backends(sig syscall.Signal) {
	s.t.Helper()
	s.signal(sig)
	for _, pid := range s.children() {
		_ = syscall.Kill(pid, sig) // it may have ended
	}
}

// children are the processes that the postmaster has started.
func (s *Server) children() (pids []int) {
	s.t.Helper()
	pid := s.cmd.Process.Pid
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		s.t.Fatal(err)
	}
	for child := range strings.FieldsSeq(string(children)) {
		if pid, err := strconv.Atoi(child); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// PID is the postmaster's process, whose children do the work.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// URL is that of a database and user; user postgres owns everything.
func (s *Server) URL(name, database string) string {
	return "postgres://" + name + "@" + s.Addr + "/" + database + "?sslmode=disable"
}

// Try runs statements as user postgres and returns the first column of the rows of
// the last one, by lines. Statements of one caller after another run on the same
// connection, since PostgreSQL starts a process for each.
func (s *Server) Try(sql string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c := s.idle.Swap(nil)
	if c == nil {
		var err error
		if c, err = pgx.Connect(ctx, s.URL("postgres", "postgres")); err != nil {
			return "", err
		}
	}
	results, err := c.PgConn().Exec(ctx, sql).ReadAll()
	if s.keep(c); err != nil || len(results) == 0 {
		return "", err
	}
	var lines []string
	for _, row := range results[len(results)-1].Rows {
		lines = append(lines, string(row[0]))
	}
	return strings.Join(lines, "\n"), nil
}

// keep has the next [Server.Try] use a connection, or closes it.
func (s *Server) keep(c *pgx.Conn) {
	if !c.IsClosed() && c.PgConn().TxStatus() == 'I' && s.idle.CompareAndSwap(nil, c) {
		return
	}
	hangUp(c)
}

func hangUp(c *pgx.Conn) {
	if c != nil {
		_ = c.Close(context.Background())
	}
}

// Do is Try for statements that must succeed.
func (s *Server) Do(sql string) string {
	s.t.Helper()
	r, err := s.Try(sql)
	if err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
	return r
}

// Session is a connection that stays open, such as one that holds locks.
func (s *Server) Session() *pgx.Conn {
	s.t.Helper()
	c, err := pgx.Connect(context.Background(), s.URL("postgres", "postgres"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// Restart shuts the server down, without waiting for its clients, and starts it again.
// Nothing that was committed is lost.
func (s *Server) Restart() {
	s.t.Helper()
	s.signal(syscall.SIGINT)
	<-s.done
	s.Run()
}
