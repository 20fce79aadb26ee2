package conn

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"testing"
)

// allWait reports whether all connections wait for a request.
func (c *Conns) allWait() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.ContainsFunc(c.all.members, func(cn *Conn) bool { return !cn.phase().waiting() })
}

// At the cap the denied go first, then the longest idle; newcomers get in.
func TestNewcomersGetIn(t *testing.T) {
	t.Parallel()
	s := start(t, Limits{Max: 6})
	first := dialFrom(t, "127.0.0.1", s.addr)
	if ask(first) != 200 {
		t.Fatal("the first")
	}
	// Who has its answer may not have been noted as idle yet.
	eventually(t, func() bool { return s.conns.allWait() })
	s.conns.sweep() // it is idle longer than those to come
	s.conns.sweep()
	var denied net.Conn
	for i := range 4 { // the fourth is denied
		denied = dialFrom(t, "127.0.0.2", s.addr)
		if got := askFor(denied, []string{"/", "/", "/", denyPath}[i]); got != []int{200, 200, 200, 429}[i] {
			t.Fatalf("%d: %d", i, got)
		}
	}
	last := dialFrom(t, "127.0.0.3", s.addr)
	if ask(last) != 200 {
		t.Fatal("the last")
	}
	eventually(t, func() bool { return s.conns.Open() == 6 })
	for i, goes := range []net.Conn{denied, first} {
		eventually(t, func() bool { return s.conns.allWait() })
		if got := ask(dialFrom(t, fmt.Sprintf("127.0.1.%d", i+1), s.addr)); got != 200 {
			t.Errorf("newcomer %d got %d", i, got)
		}
		if !hasEnded(goes) {
			t.Errorf("%d: another went", i)
		}
	}
	if ask(last) != 200 {
		t.Error("the youngest was ended too")
	}
	if n := s.conns.dismissed[reasonFull].Load(); n != 2 {
		t.Errorf("%d dismissed", n)
	}
}

// If nobody can be evicted the newcomer is refused with an answer.
func TestRefusedWhereAllAreBusy(t *testing.T) {
	t.Parallel()
	s := start(t, Limits{Max: 1})
	c := dialFrom(t, "127.0.0.1", s.addr)
	if ask(c) != 200 {
		t.Fatal("the first")
	}
	s.conns.mu.Lock()
	s.conns.all.members[0].enter(writing)
	s.conns.mu.Unlock()
	resp, err := http.ReadResponse(bufio.NewReader(dialFrom(t, "127.0.0.2", s.addr)), nil)
	if err != nil || resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "1" || !resp.Close || s.conns.rejected[reasonFull].Load() != 1 {
		t.Errorf("%v %v", resp, err)
	}
}

// Slow heads of many clients go, the oldest first, once nobody is idle.
func TestSlowHeadsMakeRoom(t *testing.T) {
	t.Parallel()
	s := start(t, Limits{Max: 3})
	var slow []net.Conn
	for i := range 3 {
		c := dialFrom(t, fmt.Sprintf("127.0.0.%d", i+1), s.addr)
		io.WriteString(c, "GET / HT")
		slow = append(slow, c)
		eventually(t, func() bool { return s.conns.States()["reading"] == i+1 })
		s.conns.sweep()
	}
	if got := ask(dialFrom(t, "127.0.1.1", s.addr)); got != 200 {
		t.Errorf("the newcomer got %d", got)
	}
	resp, err := http.ReadResponse(bufio.NewReader(slow[0]), nil)
	if err != nil || resp.StatusCode != 408 {
		t.Errorf("the oldest: %v %v", resp, err)
	}
}

// A client above its bound loses its own; one that is exempt does not.
func TestOneClientHasABound(t *testing.T) {
	t.Parallel()
	for _, exempt := range []bool{false, true} {
		s := start(t, Limits{Max: 100, PerClient: 3, Exempt: func(netip.Addr) bool { return exempt }})
		neighbour := dialFrom(t, "127.0.0.9", s.addr)
		if ask(neighbour) != 200 {
			t.Fatal("the neighbour")
		}
		var own []net.Conn
		for range 20 {
			c := dialFrom(t, "127.0.0.1", s.addr)
			if ask(c) != 200 {
				t.Fatal("a newcomer is refused")
			}
			own = append(own, c)
			s.conns.sweep()
		}
		want := 4
		if exempt {
			want = 21
		}
		eventually(t, func() bool { return s.conns.Open() == want })
		if ask(neighbour) != 200 {
			t.Error("the neighbour has lost its connection")
		}
		if !exempt && (ask(own[19]) != 200 || !hasEnded(own[0])) {
			t.Error("not the longest idle one was ended")
		}
		if got, want := s.conns.dismissed[reasonClient].Load(), uint64(21-want); got != want {
			t.Errorf("exempt %v: counted %d, want %d", exempt, got, want)
		}
	}
}
