//go:build linux

package faultproxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.ExitCode(m.Run())) }

// echo answers every byte with itself.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	return l.Addr().String()
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// say sends msg and returns what comes back within a while.
func say(t *testing.T, c net.Conn, msg string, patience time.Duration) (string, error) {
	t.Helper()
	if _, err := c.Write([]byte(msg)); err != nil {
		return "", err
	}
	_ = c.SetReadDeadline(time.Now().Add(patience))
	buf := make([]byte, len(msg))
	n, err := io.ReadFull(c, buf)
	return string(buf[:n]), err
}

func TestFaults(t *testing.T) {
	const long, short = 10 * time.Second, 50 * time.Millisecond
	msg := string(bytes.Repeat([]byte("0123456789"), 10))
	for _, tt := range []struct {
		name     string
		fault    Fault
		patience time.Duration
		want     string
		err      error
	}{
		{"none", Fault{}, long, msg, nil},
		{"slice", Fault{Slice: 1}, long, msg, nil},
		{"delay", Fault{Delay: time.Millisecond, Slice: 10}, long, msg, nil},
		{"silent", Fault{Silent: true}, short, "", os.ErrDeadlineExceeded},
		{"garbage", Fault{Garbage: bytes.Repeat([]byte("x"), 100)}, long, string(bytes.Repeat([]byte("x"), 100)), nil},
		{"always reset", Fault{ResetOneIn: 1}, long, "", syscall.ECONNRESET},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := New(t, echo(t), 1)
			p.Set(t, tt.fault)
			got, err := say(t, dial(t, p), msg, tt.patience)
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("got %q, %v; want %q, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestResetAt(t *testing.T) {
	p := New(t, echo(t), 1)
	p.Set(t, Fault{ResetAt: 7})
	got, err := say(t, dial(t, p), "0123456789", 10*time.Second)
	// What was sent before a reset may arrive or not.
	if len(got) > 7 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %q, %v; want at most 7 bytes and a broken connection", got, err)
	}
}

func TestRefuseAndCut(t *testing.T) {
	p := New(t, echo(t), 1)
	c := dial(t, p)
	if _, err := say(t, c, "x", 10*time.Second); err != nil {
		t.Fatal(err)
	}
	p.Set(t, Fault{Refuse: true})
	if _, err := say(t, c, "x", 10*time.Second); err == nil {
		t.Error("an open connection survived Refuse")
	}
	if _, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial: %v, want connection refused", err)
	}
	p.Set(t, Fault{})
	c = dial(t, p)
	if _, err := say(t, c, "x", 10*time.Second); err != nil {
		t.Errorf("after Refuse: %v", err)
	}
	p.Cut()
	if _, err := say(t, c, "x", 10*time.Second); err == nil {
		t.Error("a connection survived Cut")
	}
}

func TestRandomFaultsFollowTheSeed(t *testing.T) {
	draw := func(seed uint64) (out []bool) {
		p := New(t, "127.0.0.1:1", seed)
		p.Set(t, Fault{ResetOneIn: 2})
		for range 64 {
			_, hit := p.current()
			out = append(out, hit)
		}
		return out
	}
	a, b, c := draw(1), draw(1), draw(2)
	same := func(x, y []bool) bool {
		for i := range x {
			if x[i] != y[i] {
				return false
			}
		}
		return true
	}
	if !same(a, b) || same(a, c) {
		t.Error("draws do not follow the seed")
	}
}
