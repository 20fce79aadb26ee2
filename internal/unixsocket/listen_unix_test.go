//go:build unix

package unixsocket

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"golang.org/x/sys/unix"
)

// shortPath is a path in a new directory that fits a socket.
func shortPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(testkit.ShortDir(t), "s")
}

// A socket has its mode when it begins to listen, and before that refuses everybody.
func TestModeComesBeforeListening(t *testing.T) {
	t.Parallel()
	path := shortPath(t)
	fd, err := unixSocket()
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	listened := false
	ln, _, err := openPath(f, path, 0o606, func(fd, backlog int) error {
		listened = true
		if info, err := os.Lstat(path); err != nil || info.Mode() != fs.ModeSocket|0o606 {
			t.Errorf("before it listens: %v %v", info.Mode(), err)
		}
		if c, err := net.Dial("unix", path); err == nil {
			c.Close()
			t.Error("it takes connections before it has its mode")
		}
		return unix.Listen(fd, backlog)
	})
	if err != nil || !listened {
		t.Fatalf("listened: %v, %v", listened, err)
	}
	ln.Close()
}

// Of several that find the same dead socket, one gets the path, and keeps it.
func TestOneTakesADeadSocket(t *testing.T) {
	t.Parallel()
	path := shortPath(t)
	for range 50 {
		dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		dead.SetUnlinkOnClose(false)
		dead.Close()
		var all sync.WaitGroup
		var won atomic.Pointer[Listener]
		var winners atomic.Int32
		begin := make(chan struct{})
		for range 8 {
			all.Go(func() {
				<-begin
				if ln, _, err := Listen(path, 0o600); err == nil {
					winners.Add(1)
					won.Store(ln)
				}
			})
		}
		close(begin)
		all.Wait()
		if n := winners.Load(); n != 1 {
			t.Fatalf("%d of 8 have the path", n)
		}
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		won.Load().Close()
		if _, err := os.Lstat(path); err == nil {
			t.Fatal("the path stays")
		}
	}
}
