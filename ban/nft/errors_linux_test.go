package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/ban/feed"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// What the kernel refuses to make says what to grant, to change or to load.
func TestSetupErrors(t *testing.T) {
	t.Parallel()
	w := &Writer{config: Config{Listens: ports(80)}.withDefaults()}
	for _, c := range []struct {
		err   error
		class feed.Class
		fix   string
	}{
		{unix.EPERM, feed.ClassDenied, "CAP_NET_ADMIN"},
		{failures{unix.EPERM}, feed.ClassDenied, "CAP_NET_ADMIN"},
		{unix.EPROTONOSUPPORT, feed.ClassUnsupported, "modprobe nf_tables"},
		{failures{unix.EOPNOTSUPP}, feed.ClassUnsupported, "modprobe nf_tables"},
		{fmt.Errorf("conn.Receive: %w", errors.Join(unix.ENOENT, unix.ENOENT)), feed.ClassUnsupported, "CONFIG_NF_TABLES_INET"},
		{unix.ENOBUFS, feed.ClassBusy, "cannot be made"},
		{w.taken(" (netlink port 7)"), feed.ClassTaken, "kernel.table"},
	} {
		err := w.setupFailed(c.err)
		if e, ok := errors.AsType[*feed.Error](err); !ok || e.Class != c.class || !strings.Contains(err.Error(), c.fix) || !strings.Contains(err.Error(), "table inet fastlimit") {
			t.Errorf("%v: %v", c.err, err)
		}
	}
}

// Classes decide what the feed does next.
func TestClasses(t *testing.T) {
	t.Parallel()
	w := &Writer{}
	for err, want := range map[error]feed.Class{
		unix.EPERM: feed.ClassDenied, unix.ENOENT: feed.ClassLost, unix.ENFILE: feed.ClassFull, unix.ENOBUFS: feed.ClassBusy,
		errSilent: feed.ClassBusy, unix.EMSGSIZE: feed.ClassElement, unix.ERANGE: feed.ClassElement, unix.EIO: feed.ClassOther,
	} {
		for _, err := range []error{err, fmt.Errorf("wrapped: %w", err)} {
			if e, ok := errors.AsType[*feed.Error](w.classified("bans", err)); !ok || e.Class != want {
				t.Errorf("%v: %+v, want %v", err, e, want)
			}
		}
	}
	if w.classified("bans", nil) != nil {
		t.Error("no error is one")
	}
	for _, err := range []error{w.Apply(nil), func() error { _, _, err := w.Counters(); return err }()} {
		if e, ok := errors.AsType[*feed.Error](err); !ok || e.Class != feed.ClassLost {
			t.Errorf("before Open: %v", err)
		}
	}
	if w.Close() != nil {
		t.Error("Close before Open")
	}
}

// A life of less than a tick would be one for ever. Ticks of 10 ms are the longest.
func TestShortestLife(t *testing.T) {
	t.Parallel()
	for life, want := range map[time.Duration]uint64{
		1: 20, time.Millisecond: 20, 20*time.Millisecond - 1: 20, 20*time.Millisecond + 1: 21, time.Hour: 3_600_000, 0: 0,
	} {
		elem := element(nil, []byte{192, 0, 2, 1}, life)
		d, err := netlink.NewAttributeDecoder(elem[4:]) // without the head of the element
		if err != nil {
			t.Fatal(err)
		}
		d.ByteOrder = binary.BigEndian
		got := uint64(0)
		for d.Next() {
			if d.Type() == unix.NFTA_SET_ELEM_TIMEOUT {
				got = d.Uint64()
			}
		}
		if got != want || d.Err() != nil {
			t.Errorf("a life of %v is told as %d ms, want %d: %v", life, got, want, d.Err())
		}
	}
}

// Whatever comes from a socket is read without a panic.
func FuzzAcknowledgements(f *testing.F) {
	f.Add([]byte{36, 0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 20, 0, 0, 0, 10, 10, 5, 0, 7, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{16, 0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		acknowledgements(b, func(uint32, syscall.Errno) { n++ })
		if n > len(b)/unix.SizeofNlMsghdr {
			t.Errorf("%d in %d bytes", n, len(b))
		}
	})
}
