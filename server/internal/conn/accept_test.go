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
		l.errs = l.errs[1:]
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
	failed := 0
	l := &retryListener{
		Listener: &failingListener{ln, []error{syscall.EMFILE, syscall.ENFILE, syscall.ECONNABORTED}},
		failed:   func(error) { failed++ },
	}
	go func() {
		if c, err := net.Dial("tcp", ln.Addr().String()); err == nil {
			c.Close()
		}
	}()
	c, err := l.Accept()
	if err != nil || failed != 3 {
		t.Fatalf("%v after %d failures", err, failed)
	}
	c.Close()
	l.Listener.(*failingListener).errs = []error{syscall.EBADF}
	if _, err := l.Accept(); !errors.Is(err, syscall.EBADF) {
		t.Errorf("a lasting error was not reported: %v", err)
	}
	if l.Close() != nil || l.Close() != nil {
		t.Error("the second Close fails")
	}
}
