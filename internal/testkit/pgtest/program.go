//go:build linux

package pgtest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// program runs one of PostgreSQL's programs to its end.
func (s *Server) program(name string, args ...string) {
	s.t.Helper()
	cmd := exec.CommandContext(context.Background(), filepath.Join(s.bin, name), args...)
	cmd.SysProcAttr, cmd.Dir = asUser(s.t), filepath.Dir(s.Dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// Find returns the directory of PostgreSQL's programs, which Debian keeps out of PATH.
func Find() (string, error) {
	candidates, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	slices.Sort(candidates)
	if p, err := exec.LookPath("postgres"); err == nil {
		candidates = append(candidates, p)
	}
	if len(candidates) == 0 {
		return "", errors.New("PostgreSQL is missing: apt-get install postgresql")
	}
	p, err := filepath.EvalSymlinks(candidates[len(candidates)-1])
	return filepath.Dir(p), err
}

// asUser is how a process of PostgreSQL is started. It must not outlive a test binary
// that crashes.
func asUser(t testkit.T) *syscall.SysProcAttr {
	t.Helper()
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		return attr
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		t.Fatal(err)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err1 != nil || err2 != nil {
		t.Fatalf("user %+v", u)
	}
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attr
}
