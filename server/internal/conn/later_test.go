package conn

import (
	"errors"
	"net"
	"path/filepath"
	"testing"

	"github.com/fastlimit/fastlimit/internal/unixsocket"
)

// TestLater: a listener whose address is taken accepts when that is free, on ports and on paths.
func TestLater(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:0", "unix:" + filepath.Join(t.TempDir(), "a.sock")} {
		first, err := Listen("admin", address, 0o600, false)
		if err != nil {
			t.Fatal(err)
		}
		if path, ok := unixsocket.Path(address); !ok || path == "" {
			address = first.Addr().String()
		}
		tries := make(chan error, 100)
		l := ListenLater(address, func() (net.Listener, error) {
			ln, err := Listen("admin", address, 0o600, false)
			tries <- err
			return ln, err
		})
		if got := l.Addr().String(); got != address {
			t.Errorf("address %s, want %s", got, address)
		}
		accepted := make(chan error, 1)
		go func() {
			nc, err := l.Accept()
			if err == nil {
				nc.Close()
			}
			accepted <- err
		}()
		if err := <-tries; !InUse(err) {
			t.Errorf("taken: %v", err)
		}
		first.Close()
		for err = range tries {
			if err == nil {
				break
			}
		}
		nc, err := net.Dial(first.Addr().Network(), dialed(address))
		if err != nil {
			t.Fatal(err)
		}
		if err := <-accepted; err != nil {
			t.Error(err)
		}
		nc.Close()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func dialed(address string) string {
	if path, ok := unixsocket.Path(address); ok {
		return path
	}
	return address
}

// TestLaterEnds: by Close while it waits, and by an error that waiting does not mend.
func TestLaterEnds(t *testing.T) {
	t.Parallel()
	tries := make(chan struct{}, 1000)
	l := ListenLater("127.0.0.1:1", func() (net.Listener, error) {
		tries <- struct{}{}
		return nil, unixsocket.ErrInUse
	})
	done := make(chan error)
	go func() {
		_, err := l.Accept()
		done <- err
	}()
	<-tries
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	broken := errors.New("no such address")
	if _, err := ListenLater("", func() (net.Listener, error) { return nil, broken }).Accept(); !errors.Is(err, broken) {
		t.Errorf("broken: %v", err)
	}
}
