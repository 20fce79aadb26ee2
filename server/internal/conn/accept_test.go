package conn

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
)

// failingListener fails as a process without file descriptors does.
type failingListener struct {
	net.Listener
	errs []error
}

func (l *failingListener) Accept() (net.Conn, error) {
	if len(l.errs) > 0 {
		err := l.errs[0]
		if l.errs = l.errs[1:]; err == nil {
			return l.Listener.Accept()
		}
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", err)}
	}
	return l.Listener.Accept()
}

func TestAcceptSurvivesWantOfDescriptors(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	failed, accepted := 0, 0
	l := &retryListener{
		Listener: &failingListener{ln, []error{syscall.EMFILE, syscall.ENFILE, syscall.ECONNABORTED, nil, syscall.EBADF}},
		failed:   func(error) { failed++ },
	}
	go func() {
		if c, err := net.Dial("tcp", ln.Addr().String()); err == nil {
			c.Close()
		}
	}()
	accept := func() error {
		c, err := l.Accept()
		if err == nil {
			accepted++
			c.Close()
		}
		return err
	}
	if err := l.each(accept, false); !errors.Is(err, syscall.EBADF) || failed != 3 || accepted != 1 {
		t.Fatalf("%v after %d failures and %d connections", err, failed, accepted)
	}
	if l.Close() != nil || l.Close() != nil {
		t.Error("the second Close fails")
	}
	if err := l.each(accept, false); err != nil {
		t.Errorf("a closed listener: %v", err)
	}
}
