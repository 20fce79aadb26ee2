//go:build linux

package netns

import (
	"encoding/binary"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"golang.org/x/sys/unix"
)

// Tape is what somebody on the way has heard of what is sent to a machine. It is safe for
// concurrent use.
type Tape struct {
	fd int

	mu     sync.Mutex
	frames [][]byte
}

// Record records the UDP packets to a port of a machine, until the test ends.
func (m *Machine) Record(t testkit.T, port uint16) *Tape {
	t.Helper()
	cable, err := net.InterfaceByName(m.cable)
	if err != nil {
		t.Fatalf("netns: %v", err)
	}
	every := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL)) // what goes out comes to no other
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, int(every))
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: every, Ifindex: cable.Index})
	}
	if err == nil { // so that what follows sees the end
		err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000})
	}
	if err != nil {
		t.Fatalf("netns: recording %s: %v", m.cable, err)
	}
	tape, ended, done := &Tape{fd: fd}, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for buf := make([]byte, 1<<16); ; {
			select {
			case <-ended:
				return
			default:
			}
			n, from, err := unix.Recvfrom(fd, buf, 0)
			if ll, ok := from.(*unix.SockaddrLinklayer); err == nil && ok && ll.Pkttype == unix.PACKET_OUTGOING {
				tape.note(buf[:n], port)
			}
		}
	}()
	t.Cleanup(func() {
		close(ended)
		<-done
		_ = unix.Close(fd)
	})
	return tape
}

// note keeps a frame of Ethernet, IPv4 and UDP to a port, without the checksum of UDP, which
// devices are to fill in.
func (t *Tape) note(frame []byte, port uint16) {
	const ethernet, protocol, udp = 14, 9, 17
	if len(frame) < ethernet+20 || frame[12] != 8 || frame[13] != 0 || frame[ethernet+protocol] != udp {
		return
	}
	at := ethernet + int(frame[ethernet]&15)*4
	if len(frame) < at+8 || binary.BigEndian.Uint16(frame[at+2:]) != port {
		return
	}
	frame = slices.Clone(frame)
	frame[at+6], frame[at+7] = 0, 0
	t.mu.Lock()
	defer t.mu.Unlock()
	t.frames = append(t.frames, frame)
}

// Replay sends all that was recorded so far again and again, at a packet a millisecond, as if from
// who sent it first, until stop is called.
func (t *Tape) Replay() (packets int, stop func()) {
	t.mu.Lock()
	frames := slices.Clone(t.frames)
	t.mu.Unlock()
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; len(frames) > 0; i++ {
			select {
			case <-end:
				return
			case <-time.After(time.Millisecond):
				_, _ = unix.Write(t.fd, frames[i%len(frames)])
			}
		}
	}()
	return len(frames), sync.OnceFunc(func() { close(end); <-ended })
}
