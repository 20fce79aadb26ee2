//go:build linux

package pgtest

import (
	"net"
	"strconv"
	"syscall"
)

// Standby starts a server that follows this one by asynchronous streaming replication,
// through addr if that is not empty, such as a proxy's, and answers queries meanwhile.
// settings are its further ones; some must not be below this one's.
func (s *Server) Standby(addr string, settings ...string) *Server {
	s.t.Helper()
	host, port := "127.0.0.1", strconv.Itoa(s.Port)
	standby := newServer(s.t, quickDir(), nil)
	standby.program("pg_basebackup", "--pgdata", standby.Dir, "--dbname", "host="+host+" port="+port+" user=postgres",
		"--checkpoint=fast", "--no-sync", "--wal-method=stream", "--write-recovery-conf")
	if addr != "" {
		var err error
		if host, port, err = net.SplitHostPort(addr); err != nil {
			s.t.Fatal(err)
		}
	}
	standby.Set(append([]string{"primary_conninfo=host=" + host + " port=" + port + " user=postgres"}, settings...)...)
	standby.Run()
	return standby
}

// Promote makes a standby a primary, and returns when it is one.
func (s *Server) Promote() { s.t.Helper(); s.Do("SELECT pg_promote()") }

// Crash ends all processes by SIGKILL.
func (s *Server) Crash() {
	s.t.Helper()
	s.signal(syscall.SIGSTOP) // so that none is started meanwhile
	children := s.children()
	s.signal(syscall.SIGKILL)
	for _, pid := range children {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	<-s.done
}
