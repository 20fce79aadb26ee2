//go:build linux

package pgtest

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// memory is a file system in memory. A cluster has a thousand files: some disks take a
// second of CPU time to make them.
const memory = "/dev/shm"

// room is how much must be free in it. Containers often have as little as 64 MB.
const room = 2 << 30

// quickDir is where clusters are that need no disk.
func quickDir() string {
	var fs syscall.Statfs_t
	if syscall.Statfs(memory, &fs) != nil || fs.Bavail*uint64(fs.Bsize) < room {
		return os.TempDir()
	}
	return memory
}

// newDir makes a directory for one server, gone when the test ends. It is locked as long as
// this process lives, so that the next one can tell what a crash has left.
func newDir(t testkit.T, parent string) string {
	t.Helper()
	sweep()
	for {
		dir, err := os.MkdirTemp(parent, "pgtest") // not that of the test, which only root can enter
		if err != nil {
			t.Fatal(err)
		}
		f, err := lock(dir, 0)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if err != nil {
			continue // swept before it was locked
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir); _ = f.Close() })
		return dir
	}
}

// lock locks a directory that is still there then.
func lock(dir string, how int) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|how)
	if err == nil {
		_, err = os.Stat(dir)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// sweep removes what processes that have crashed left in memory.
var sweep = sync.OnceFunc(func() {
	left, _ := filepath.Glob(filepath.Join(memory, "pgtest*"))
	for _, dir := range left {
		if f, err := lock(dir, syscall.LOCK_NB); err == nil {
			_ = os.RemoveAll(dir)
			_ = f.Close()
		}
	}
})
