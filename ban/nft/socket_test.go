//go:build linux && netns

package nft

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/ban/feed"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Answers of a transaction that was not read to its end do not count for the next, and
// a buffer that overflows loses answers, but not the connection.
func TestTransactions(t *testing.T) {
	w := opened(t, Config{}, false)
	if err := w.socket.nl.SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	missing := w.elements(unix.NFT_MSG_DELSETELEM, netlink.Acknowledge, task{"ports", []feed.Change{{Prefix: one}}})
	for range 3 {
		if err := w.socket.transact(missing); err == nil || errors.Is(err, errSilent) {
			t.Errorf("a transaction that fails: %v", err)
		}
		many := make([]netlink.Message, 5000)
		for i := range many {
			many[i] = missing
		}
		if err := w.socket.transact(many...); err == nil {
			t.Error("5000 that fail: no error")
		}
		if _, err := w.socket.nl.SendMessages(append(append([]netlink.Message{boundary(unix.NFNL_MSG_BATCH_BEGIN)}, missing), boundary(unix.NFNL_MSG_BATCH_END))); err != nil {
			t.Fatal(err) // whose answer nobody reads
		}
		if err := w.Apply([]feed.Change{{Prefix: two, For: time.Hour}}); err != nil {
			t.Error("afterwards:", err)
		}
		if _, _, err := w.Counters(); err != nil {
			t.Error("afterwards:", err)
		}
	}
	if !held(t, "fastlimit", two) {
		t.Error("not banned", mustTool(t, "list", "ruleset"))
	}
}

// An acknowledgement that is missing is an error: the kernel may have done nothing.
func TestSilence(t *testing.T) {
	w := opened(t, Config{}, false)
	sent := []netlink.Message{{Header: netlink.Header{Sequence: 1}}, {Header: netlink.Header{Sequence: 2}}, {Header: netlink.Header{Sequence: 3}}}
	if err := w.socket.acknowledged(sent); !errors.Is(err, errSilent) {
		t.Errorf("got %v", err)
	}
}

// A full batch of the longest changes fits the buffers that every process gets, in its
// longest form too, and one that does not is the feed's to halve.
func TestLargestBatch(t *testing.T) {
	w := opened(t, Config{}, false)
	var all []feed.Change
	for i := range feed.MaxBatch {
		p := fmt.Sprintf("2001:db8:%x::/64", i)
		if i%2 == 0 {
			p = fmt.Sprintf("2001:db8:%x::/48", i)
		}
		all = append(all, feed.Change{Prefix: netip.MustParsePrefix(p), For: time.Hour})
	}
	for range 2 { // the second time each one is there
		if err := w.Apply(all); err != nil {
			t.Error(err)
		}
	}
	small := func(bytes int) {
		raw, err := w.socket.nl.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, bytes) }); err != nil {
			t.Fatal(err)
		}
	}
	small(106_496) // half of what Linux gives
	if err := w.Apply(all); err != nil {
		t.Error(err)
	}
	small(4096)
	if err := w.Apply(all); class(err) != feed.ClassElement {
		t.Errorf("too long: %v", err)
	}
	if err := w.Apply(all[:10]); err != nil {
		t.Error(err)
	}
}

func BenchmarkFeed(b *testing.B) {
	for range b.N {
		b.StopTimer()
		s := open(b, Config{Max: 100_000}, false)
		b.StartTimer()
		fill(b, s, 100_000)
		b.StopTimer()
		s.Close()
	}
}
