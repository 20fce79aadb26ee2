//go:build linux

package faultproxy

import (
	"net"
	"strconv"
	"syscall"
	"time"
)

// BlackHole returns an address that neither accepts nor refuses connections.
func BlackHole(t T) string {
	t.Helper()
	addr, end := blackHole(t, "127.0.0.1:0")
	t.Cleanup(end)
	return addr
}

// blackHole listens on addr, an IPv4 one, with a full queue: it dials connections
// that nobody accepts until one times out. From then on Linux drops every SYN, as
// a firewall would.
func blackHole(t T, addr string) (at string, end func()) {
	t.Helper()
	host, port, _ := net.SplitHostPort(addr)
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	sa := &syscall.SockaddrInet4{Port: n, Addr: [4]byte(net.ParseIP(host).To4())}
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, sa); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	at = net.JoinHostPort(host, strconv.Itoa(bound.(*syscall.SockaddrInet4).Port)) //nolint:forcetypeassert // bound above
	var filling []net.Conn
	for {
		c, err := net.DialTimeout("tcp", at, 200*time.Millisecond)
		if err != nil {
			break
		}
		filling = append(filling, c)
	}
	return at, func() {
		for _, c := range filling {
			_ = c.Close()
		}
		_ = syscall.Close(fd)
	}
}
