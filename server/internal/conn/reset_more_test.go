package conn

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"
)

// Those of a prefix are what a look at each connection finds.
func TestConnectionsOfAPrefix(t *testing.T) {
	t.Parallel()
	trusted := netip.MustParseAddr("192.0.2.9")
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		c := New(Limits{
			Head: time.Hour, Write: time.Hour, Idle: time.Hour, Max: 30, PerClient: 30, HeadBytes: 4 << 10,
			Exempt: func(a netip.Addr) bool { return a == trusted },
		}, discard)
		addr := func() string {
			if rnd.IntN(2) == 0 {
				return fmt.Sprintf("192.0.2.%d", rnd.IntN(10))
			}
			return fmt.Sprintf("2001:db8:0:%x::%x", rnd.IntN(4), 1+rnd.IntN(3))
		}
		var ever []*Conn
		for range 40 {
			cn := c.wrap(quietFrom(addr()))
			cn.opening = &opening{raw: cn.Conn, header: rnd.IntN(8) == 0}
			cn.enter([]phase{fresh, idle, queued}[rnd.IntN(3)])
			if c.admit(cn) {
				ever = append(ever, cn)
			}
			if rnd.IntN(8) == 0 && len(ever) > 0 {
				c.remove(ever[rnd.IntN(len(ever))])
			}
		}
		bits := []int{0, 24, 28, 32}
		base := netip.MustParseAddr(addr())
		if base.Is6() {
			bits = []int{0, 48, 62, 64, 128}
		}
		p, _ := base.Prefix(bits[rnd.IntN(len(bits))])
		want := map[*Conn]bool{}
		for _, cn := range ever {
			open := cn.entry.in(groupAll) || cn.entry.in(groupGone)
			if open && !cn.opening.header && p.Contains(cn.addr) {
				want[cn] = true
			}
		}
		got := c.ofPeers(p)
		for _, cn := range got {
			if !want[cn] {
				t.Fatalf("seed %d: %v is not in %v, or not twice", seed, cn.addr, p)
			}
			delete(want, cn)
		}
		if len(want) > 0 {
			t.Fatalf("seed %d: %d connections of %v are missing", seed, len(want), p)
		}
	}
}

// Nobody has to make room for a connection that is reset anyway.
func TestBannedPeersTakeNoRoom(t *testing.T) {
	t.Parallel()
	var held atomic.Bool
	s := startEcho(t, Limits{Max: 1, Held: func(a netip.Addr) bool { return held.Load() && a.String() == banned }}, Options{})
	n := dialFrom(t, neighbour, s.addr)
	if got := ask(n); got != 200 {
		t.Fatalf("got %d", got)
	}
	held.Store(true)
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(banned)}}
	for want := range uint64(5) {
		if c, err := dialer.DialContext(t.Context(), "tcp", s.addr); err == nil {
			defer c.Close()
		}
		eventually(t, func() bool { return s.conns.Resets() == want+1 })
	}
	if got := ask(n); got != 200 {
		t.Errorf("the neighbour got %d", got)
	}
}

type interrupted struct{ times int }

func (i *interrupted) Interrupt() { i.times++ }

// An upstream is let go of once, whether the connection was reset before it was asked or
// while it is.
func TestResetInterruptsUpstreams(t *testing.T) {
	t.Parallel()
	c := newConns(10, 10)
	cn := c.wrap(quietFrom(banned))
	c.admit(cn)
	var first, second interrupted
	relay := Relay{cn}
	relay.Ask(&first)
	if got := c.Reset(bannedOnly); got != 1 || first.times != 1 {
		t.Errorf("%d connections were reset, %d interrupts", got, first.times)
	}
	if !relay.Asked() {
		t.Error("nobody has told the goroutine")
	}
	relay.Ask(&second)
	c.Reset(bannedOnly)
	if second.times != 1 || c.Resets() != 1 {
		t.Errorf("%d interrupts, %d resets", second.times, c.Resets())
	}
}
