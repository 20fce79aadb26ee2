//go:build linux

package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// initdb's options. Small segments of the log make for a small copy.
var initdb = []string{"--username=postgres", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", "--wal-segsize=1"}

// making is held by who looks for the template, and makes it where there is none.
var making sync.Mutex

// newData gives the server an empty cluster, as a copy of one that was made before:
// initdb takes ten times as long. The copy is kept in this user's cache, for all
// processes, as one file: it is there as a whole or not at all.
func (s *Server) newData() {
	s.t.Helper()
	kept, err := s.template()
	if err != nil { // nowhere to keep one
		s.initdb(initdb...)
		return
	}
	making.Lock()
	defer making.Unlock()
	if s.unpack(kept) == nil {
		return
	}
	if err := os.RemoveAll(s.Dir); err != nil { // of a file that was cut short
		s.t.Fatal(err)
	}
	s.initdb(initdb...)
	s.pack(kept)
}

func (s *Server) initdb(options ...string) {
	s.t.Helper()
	s.program("initdb", append([]string{"--pgdata", s.Dir}, options...)...)
}

// template is where the copy is kept, for this PostgreSQL and these options.
func (s *Server) template() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "fastlimit-pgtest")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	version, err := exec.CommandContext(context.Background(), filepath.Join(s.bin, "postgres"), "--version").Output()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(fmt.Appendf(version, "%s\n%s", s.bin, strings.Join(initdb, " ")))
	return filepath.Join(dir, hex.EncodeToString(sum[:8])+".tar"), nil
}

// unpack makes the data of what is kept. The server's user need not be able to read that.
func (s *Server) unpack(kept string) error {
	f, err := os.Open(kept)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	cmd := s.tar("--extract", "--preserve-permissions", "--no-same-owner", "--file=-")
	cmd.Stdin = f
	return cmd.Run()
}

// pack keeps the data. If it cannot, the next server has work again, and nothing else.
func (s *Server) pack(kept string) {
	f, err := os.CreateTemp(filepath.Dir(kept), "new")
	if err != nil {
		return
	}
	defer func() { _ = os.Remove(f.Name()) }()
	cmd := s.tar("--create", "--file=-", filepath.Base(s.Dir))
	cmd.Stdout = f
	err = cmd.Run()
	if closed := f.Close(); err == nil && closed == nil {
		_ = os.Rename(f.Name(), kept)
	}
}

func (s *Server) tar(args ...string) *exec.Cmd {
	s.t.Helper()
	cmd := exec.CommandContext(context.Background(), "tar", args...)
	cmd.SysProcAttr, cmd.Dir = asUser(s.t), filepath.Dir(s.Dir)
	return cmd
}
