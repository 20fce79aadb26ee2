package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	// buffer is the size requested on both sides of the socket; the default is enough, too.
	buffer = 1 << 20

	// patience bounds a wait for an answer. The kernel answers within the call that sends,
	// so an answer that is not there by then will not come.
	patience = 5 * time.Second
)

// socket is a netlink socket on which transactions are made. The table belongs to it, so
// the library uses the same one.
type socket struct {
	nl      *netlink.Conn
	library *nftables.Conn
	buf     []byte
}

func dial() (*socket, error) {
	s := &socket{buf: make([]byte, 1<<16)}
	var err error
	s.library, err = nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(nl *netlink.Conn) error {
		s.nl = nl
		return nil
	}))
	if err != nil {
		return nil, err
	}
	// An error then does not carry the message that it is about, of up to 100 KB.
	if err := s.nl.SetOption(netlink.CapAcknowledge, true); err != nil {
		return nil, errors.Join(err, s.close())
	}
	_, _ = s.nl.SetReadBuffer(buffer), s.nl.SetWriteBuffer(buffer) // see buffer
	return s, nil
}

// close closes the socket, and with it a table that it owns.
func (s *socket) close() error { return s.nl.Close() }

// message returns a message of nftables, for family inet.
func message(kind int, flags netlink.HeaderFlags, data []byte) netlink.Message {
	return netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | kind), Flags: netlink.Request | flags},
		Data:   append([]byte{unix.NFPROTO_INET, unix.NFNETLINK_V0, 0, 0}, data...),
	}
}

// boundary returns the message that begins or ends a transaction.
func boundary(kind netlink.HeaderType) netlink.Message {
	return netlink.Message{
		Header: netlink.Header{Type: kind, Flags: netlink.Request},
		Data:   []byte{0, unix.NFNETLINK_V0, 0, unix.NFNL_SUBSYS_NFTABLES},
	}
}

// errSilent says that the acknowledgement of a transaction is missing.
var errSilent = errors.New("no acknowledgement")

// failures are the distinct errors of a transaction, of which nothing was carried out.
type failures []syscall.Errno

func (f failures) Error() string { return fmt.Sprint([]syscall.Errno(f)) }

// Is reports to errors.Is whether target is one of these errors.
func (f failures) Is(target error) bool {
	for _, e := range f {
		if e == target {
			return true
		}
	}
	return false
}

// transact carries out all messages or none. The library's Flush waits for one
// acknowledgement for each message, and the kernel may send fewer or more than that: one
// error for a transaction that it does not even begin, or an additional one for a
// transaction that it cannot end. Here only the last message has to be acknowledged, and
// errors are distinguished from those of an earlier transaction.
func (s *socket) transact(messages ...netlink.Message) error {
	all := make([]netlink.Message, 0, len(messages)+2)
	all = append(append(all, boundary(unix.NFNL_MSG_BATCH_BEGIN)), messages...)
	all[len(all)-1].Header.Flags |= netlink.Acknowledge
	all = append(all, boundary(unix.NFNL_MSG_BATCH_END))
	sent, err := s.nl.SendMessages(all)
	if err != nil {
		return err
	}
	return s.acknowledged(sent)
}

// acknowledged reads all answers of the kernel.
func (s *socket) acknowledged(sent []netlink.Message) error {
	first, last := sent[0].Header.Sequence, sent[len(sent)-2].Header.Sequence
	var failed failures
	done := false
	err := s.read(func(seq uint32, errno syscall.Errno) {
		switch {
		case seq-first > last-first: // of an earlier transaction
		case errno != 0 && !failed.Is(errno):
			failed = append(failed, errno)
		case errno == 0:
			done = done || seq == last
		}
	})
	switch {
	case failed != nil:
		return failed
	case err != nil:
		return err
	case !done:
		return errSilent
	}
	return nil
}

// read calls f for each acknowledgement that has come, without waiting. Its error is one of
// the socket: some acknowledgements have been lost.
func (s *socket) read(f func(seq uint32, errno syscall.Errno)) (lost error) {
	raw, err := s.nl.SyscallConn()
	if err != nil {
		return err
	}
	err = raw.Control(func(fd uintptr) {
		for {
			n, _, err := unix.Recvfrom(int(fd), s.buf, unix.MSG_DONTWAIT)
			switch {
			case errors.Is(err, unix.EINTR):
			case errors.Is(err, unix.EAGAIN):
				return
			case errors.Is(err, unix.ENOBUFS): // the remaining ones can still be read
				lost = os.NewSyscallError("recvfrom", err)
			case err != nil:
				lost = os.NewSyscallError("recvfrom", err)
				return
			default:
				acknowledgements(s.buf[:n], f)
			}
		}
	})
	if err != nil {
		return err
	}
	return lost
}

// acknowledgements calls f for each one in a datagram.
func acknowledgements(b []byte, f func(seq uint32, errno syscall.Errno)) {
	all, err := syscall.ParseNetlinkMessage(b)
	if err != nil {
		return // then the one that is waited for is missing
	}
	for _, m := range all {
		if m.Header.Type == unix.NLMSG_ERROR && len(m.Data) >= 4 {
			f(m.Header.Seq, syscall.Errno(-int32(binary.NativeEndian.Uint32(m.Data)))) // the kernel's numbers are small
		}
	}
}

// prepare makes sure that the next answer to be read is that to the next message, and that
// the wait for it is bounded.
func (s *socket) prepare() error {
	_ = s.read(func(uint32, syscall.Errno) {}) // a lost answer no longer matters
	return s.nl.SetReadDeadline(time.Now().Add(patience))
}

// flush sends what the library has collected. See transact for what might go wrong.
func (s *socket) flush() error {
	if err := s.prepare(); err != nil {
		return err
	}
	return s.library.Flush()
}

// rules returns those of a chain.
func (s *socket) rules(c *nftables.Chain) ([]*nftables.Rule, error) {
	if err := s.prepare(); err != nil {
		return nil, err
	}
	return s.library.GetRules(c.Table, c)
}

// ask sends one question and returns the answers.
func (s *socket) ask(kind int, data []byte) ([]netlink.Message, error) {
	if err := s.prepare(); err != nil {
		return nil, err
	}
	return s.nl.Execute(message(kind, 0, data))
}
