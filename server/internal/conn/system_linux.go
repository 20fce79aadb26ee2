package conn

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"

	"github.com/fastlimit/fastlimit/server/internal/nowait"
	"golang.org/x/sys/unix"
)

// openFiles is the limit on open files, to which the Go runtime raises the soft
// one; 0 if it is unknown.
func openFiles() int {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	return int(min(l.Cur, 1<<30))
}

// lastRead reads what has arrived on a connection. If that is nothing, it shuts down our side, so that the
// client sees that no more answers come. Nothing happens between the two, so hardly any request arrives in
// vain.
func lastRead(nc net.Conn, p []byte) (n int, err error) {
	n, err = nowait.Read(nc, p, func(fd int) {
		_ = unix.Shutdown(fd, unix.SHUT_WR) // it may be closed already
	})
	if err != nil {
		return 0, io.EOF
	}
	return n, nil
}

// readNow reads what has arrived, whatever the deadline. If that is nothing, its error is that of a deadline.
func readNow(nc net.Conn, p []byte) (n int, err error) { return nowait.Read(nc, p, nil) }

// disconnect resets a TCP connection at once, whatever its goroutine is doing: that is what connect to an
// address without a family does. A reset by close would come only when nobody uses the descriptor any more,
// such as a resident that waits for a store. Everything that is done with the socket afterwards fails.
func disconnect(nc net.Conn) error {
	return control(nc, func(fd int) error {
		none := unix.RawSockaddr{Family: unix.AF_UNSPEC}
		_, _, errno := unix.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&none)), unsafe.Sizeof(none))
		if errno != 0 {
			return os.NewSyscallError("connect", errno)
		}
		return nil
	})
}

// wholeHandshakes makes a listening socket wait for the end of each handshake, even if TCP Fast Open is on
// for the whole system: with a cookie that it once got, a client could make requests in somebody else's name.
func wholeHandshakes(ln net.Listener) error {
	if _, ok := ln.(*net.TCPListener); !ok {
		return nil
	}
	return control(ln, func(fd int) error {
		err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN, 0)
		if errors.Is(err, unix.ENOPROTOOPT) { // TCP Fast Open is unknown
			err = nil
		}
		return os.NewSyscallError("setsockopt TCP_FASTOPEN", err)
	})
}

// control calls f with the descriptor of a connection or listener, and returns its error. Without a
// descriptor it is unsupported.
func control(socket any, f func(fd int) error) error {
	sc, ok := socket.(syscall.Conn)
	if !ok {
		return errors.ErrUnsupported
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return err
	}
	failed := raw.Control(func(fd uintptr) { err = f(int(fd)) })
	return errors.Join(failed, err)
}

// deferAccept makes the kernel hold back new connections of a TCP listener until their clients have sent
// something, or for at most a second or two: then most have sent their request when they are accepted. It
// does not matter if the kernel refuses.
func deferAccept(ln net.Listener, on bool) {
	seconds := 0
	if on {
		seconds = 1 // as short as possible: until the SYN-ACK has been sent once more
	}
	_ = control(ln, func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, seconds) })
}

// inheritance sets options on a listening socket that its connections inherit, which saves the calls that Go
// would make for each of them: Go's keep-alive, and no delay.
func inheritance(_, _ string, c syscall.RawConn) error {
	const idle, interval, count = 15, 15, 9 // seconds, seconds, probes
	var err error
	failed := c.Control(func(fd uintptr) {
		s := int(fd)
		err = errors.Join(
			unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1),
			unix.SetsockoptInt(s, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, idle),
			unix.SetsockoptInt(s, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, interval),
			unix.SetsockoptInt(s, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, count),
			unix.SetsockoptInt(s, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		)
	})
	return errors.Join(failed, err)
}

// shared also lets other processes of the same user bind the address, before and after.
func shared(network, address string, c syscall.RawConn) error {
	err := inheritance(network, address, c)
	failed := c.Control(func(fd uintptr) {
		err = errors.Join(err, os.NewSyscallError("setsockopt SO_REUSEPORT", unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)))
	})
	return errors.Join(failed, err)
}

// preferNewest sends all new connections to the second of two processes on a port, instead of half of them:
// those that the first one ignores at its end (refuseNew) would be a second late. The kernel asks the program
// for the index of a socket, and takes any if there is none: with one process, or on a kernel without such
// programs.
func preferNewest(ln net.Listener) {
	second := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 1}}
	prog := unix.SockFprog{Len: 1, Filter: &second[0]}
	_ = control(ln, func(fd int) error {
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &prog)
	})
}

// inheritable does the same to a socket that somebody else has bound.
func inheritable(ln net.Listener) error {
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	return inheritance("", "", raw)
}

// refuseNew makes a listening socket ignore new connections, while those whose handshake has begun still get
// into its queue: a socket filter drops every SYN without ACK. Clients send it again after a second.
func refuseNew(ln net.Listener) error {
	const (
		flags    = 13 // offset in the TCP header
		syn, ack = 0x02, 0x10
	)
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: flags},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: syn | ack},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: syn},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		{Code: unix.BPF_RET | unix.BPF_K, K: 1 << 30},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return control(ln, func(fd int) error { return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &prog) })
}
