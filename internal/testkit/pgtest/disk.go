//go:build linux

package pgtest

import (
	"context"
	"errors"
	"os/exec"
	"strconv"
	"syscall"
)

// FillDisk lets no file of the server grow beyond size bytes from now on, by a limit of
// its processes and of those that it will start: then PostgreSQL reports a full disk
// (SQLSTATE 53100). It needs no privileges, as a file system of a given size would.
//
// size must be no multiple of 8 KiB, since PostgreSQL takes a page that is written in
// part for a full disk, and above that of a segment of the log (1 MiB), since it crashes
// if it cannot write that.
func (s *Server) FillDisk(size uint64) { s.t.Helper(); s.limitFiles(strconv.FormatUint(size, 10)) }

// EmptyDisk undoes [Server.FillDisk].
func (s *Server) EmptyDisk() { s.t.Helper(); s.limitFiles("unlimited") }

// limitFiles sets the soft limit, as the user of the processes, who may.
func (s *Server) limitFiles(size string) {
	s.t.Helper()
	// First the postmaster: who is started after that inherits its limit.
	for _, pid := range append([]int{s.cmd.Process.Pid}, s.children()...) {
		cmd := exec.CommandContext(context.Background(), "prlimit", "--pid", strconv.Itoa(pid), "--fsize="+size+":")
		cmd.SysProcAttr, cmd.Dir = asUser(s.t), "/"
		if out, err := cmd.CombinedOutput(); err != nil && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) { // it may have ended
			s.t.Fatalf("%v: %v\n%s", cmd, err, out)
		}
	}
}
