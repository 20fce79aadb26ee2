package trial

import (
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/remote"
)

// Liar is a connection to whoever answers as a store: a text, then another one so many times,
// whatever it is asked.
type Liar struct {
	net.Conn
	First, Then string
	Times       int
	at          int
}

// Read implements [net.Conn].
func (l *Liar) Read(p []byte) (int, error) {
	for l.at == len(l.First) {
		if l.Times--; l.Times < 0 || l.Then == "" {
			return 0, io.EOF
		}
		l.First, l.at = l.Then, 0
	}
	n := copy(p, l.First[l.at:])
	l.at += n
	return n, nil
}

// Write implements [net.Conn], as do all below. It reads nothing of it.
func (l *Liar) Write(p []byte) (int, error) { return len(p), nil }

// Close does nothing.
func (l *Liar) Close() error { return nil }

// SetDeadline does nothing: it never waits.
func (l *Liar) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (l *Liar) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing.
func (l *Liar) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr is no address.
func (l *Liar) LocalAddr() net.Addr { return new(net.TCPAddr) }

// RemoteAddr is no address.
func (l *Liar) RemoteAddr() net.Addr { return new(net.TCPAddr) }

// AskForAll has a driver carry out an operation of each algorithm and kind, checks that each
// has one outcome, and returns the errors.
func AskForAll(t testing.TB, d remote.Driver) (errs []error) {
	t.Helper()
	var ops []*bucket.Op
	for _, a := range Algorithms {
		shape := MustShape(t, a, 5, time.Minute, map[bool]uint64{true: 5}[a == bucket.LeakyBucket])
		for _, k := range []bucket.Kind{bucket.Take, bucket.Peek, bucket.Refund, bucket.Reset} {
			ops = append(ops, &bucket.Op{Algorithm: a, Kind: k, Key: "k", Shape: shape, Cost: shape.Unit(), Count: 2})
		}
	}
	settled := map[*bucket.Op]int{}
	d.Exec(t.Context(), ops, func(op *bucket.Op, r bucket.Reply, err error) {
		if settled[op]++; err != nil {
			errs = append(errs, err)
		} else if op.Kind == bucket.Take && r.Granted > op.Count {
			t.Errorf("%d of %d are granted", r.Granted, op.Count)
		}
	})
	for _, op := range ops {
		if settled[op] != 1 {
			t.Errorf("%v: %d outcomes", op.Kind, settled[op])
		}
	}
	return errs
}

// Grows fails the test if the process takes more than so many bytes more while f runs.
func Grows(t testing.TB, most uint64, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if grown := after.Sys - before.Sys; grown > most {
		t.Errorf("%d MiB more", grown>>20)
	}
}
