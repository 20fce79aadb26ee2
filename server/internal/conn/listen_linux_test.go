package conn

import (
	"log/slog"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// Connections inherit keep-alive from the listening socket.
func TestKeepAliveIsInherited(t *testing.T) {
	t.Parallel()
	ln, err := Listen("listen", "127.0.0.1:0", 0, false)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dialFrom(t, "127.0.0.1", ln.Addr().String())
	nc, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	raw, err := nc.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []struct{ level, name, want int }{
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 9},
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{unix.SOL_SOCKET, unix.SO_PROTOCOL, unix.IPPROTO_TCP}, // not multipath
	} {
		var got int
		_ = raw.Control(func(fd uintptr) { got, err = unix.GetsockoptInt(int(fd), o.level, o.name) })
		if err != nil || got != o.want {
			t.Errorf("option %d of level %d: %d, want %d; %v", o.name, o.level, got, o.want, err)
		}
	}
}

// Where peers may be dropped nobody makes a request before the end of the handshake.
func TestWholeHandshakes(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	fastOpen := func() (n int) {
		if err := control(ln, func(fd int) (err error) {
			n, err = unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if err := control(ln, func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN, 5) }); err != nil {
		t.Fatal(err)
	}
	if fastOpen() != 5 {
		t.Fatal("Fast Open is not on")
	}
	if err := wholeHandshakes(ln); err != nil || fastOpen() != 0 {
		t.Errorf("%d %v", fastOpen(), err)
	}
}

// TestNewestGetsAll: of two processes on a port the second gets all new connections, and the first
// one again when it is alone.
func TestNewestGetsAll(t *testing.T) {
	t.Parallel()
	first, err := Listen("listen", "127.0.0.1:0", 0, true)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := Listen("listen", first.Addr().String(), 0, true)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string)
	accept := func(name string, ln net.Listener) {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			nc.Close()
			got <- name
		}
	}
	go accept("first", first)
	go accept("second", second)
	for range 50 {
		dialFrom(t, "127.0.0.1", first.Addr().String())
		if name := <-got; name != "second" {
			t.Fatalf("the %s got a connection", name)
		}
	}
	second.Close()
	for range 10 {
		dialFrom(t, "127.0.0.1", first.Addr().String())
		if name := <-got; name != "first" {
			t.Fatalf("the %s got a connection", name)
		}
	}
	if _, err := Listen("listen", first.Addr().String(), 0, false); !InUse(err) {
		t.Errorf("one that does not share: %v", err)
	}
}

// TestSharedPortsComeLast: who cannot start takes no connection from the process that runs.
func TestSharedPortsComeLast(t *testing.T) {
	t.Parallel()
	running, err := Listen("listen", "127.0.0.1:0", 0, true)
	if err != nil {
		t.Fatal(err)
	}
	defer running.Close()
	taken, err := Listen("listen", "127.0.0.1:0", 0, false)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, spare := range map[string]bool{"another address is taken": false, "admin is": true} {
		conns := New(Limits{}, slog.New(slog.DiscardHandler))
		f := Front{Conns: conns, Spare: spare, Addresses: []string{running.Addr().String(), taken.Addr().String()}}
		for _, shared := range []bool{true, false} {
			f.Listeners = append(f.Listeners, NewListener(conns, Options{ReusePort: shared}, Handlers{}))
		}
		if spare {
			f.Addresses[1] = "127.0.0.1:0"
		}
		if err := f.Listen(); (err == nil) != spare || f.Listeners[0].Addr() != nil {
			t.Errorf("%s: %v, and bound: %v", name, err, f.Listeners[0].Addr())
		}
		f.Close()
	}
}
