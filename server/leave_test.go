package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"
)

// The time limit of an idle connection ends it in the same way: the client is
// told by the end of the connection, and nothing is counted as a bad request.
func TestIdleLimitIsNoBadRequest(t *testing.T) {
	t.Parallel()
	s := start(t, perIP(), func(c *Config) { c.Connections.IdleTimeout = 20 * time.Millisecond })
	for _, first := range []string{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", headOf(9000, "")} { // small and larger reader
		c := dial(t, s.addr)
		defer c.Close()
		io.WriteString(c, first)
		br := bufio.NewReader(c)
		if resp, err := http.ReadResponse(br, nil); err != nil || resp.StatusCode != 200 {
			t.Fatalf("%v %v", resp, err)
		}
		if rest, err := io.ReadAll(br); len(rest) > 0 || err != nil {
			t.Errorf("an idle connection is told %q, %v", rest, err)
		}
	}
	for reason, n := range s.decide.Bad() {
		if n != 0 {
			t.Errorf("%s is counted", reason)
		}
	}
}

// In a drain every client that sends gets an answer, the last one of the connection, and others see its end;
// nobody waits for the time limit.
func TestDrainAnswersEverybody(t *testing.T) {
	t.Parallel()
	set := perSecond()
	set.Rules[0].Limit.Burst = 1 << 30
	s := start(t, set, func(c *Config) { c.Drain.Timeout = 15 * time.Second })
	idleOnes, freshOnes := make([]net.Conn, 20), make([]net.Conn, 20)
	for i := range idleOnes {
		idleOnes[i], freshOnes[i] = dial(t, s.addr), dial(t, s.addr)
		if ask(idleOnes[i]) != 200 {
			t.Fatal("before the drain")
		}
	}
	eventually(t, func() bool { return s.conns.Open() == 40 })
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	eventually(t, func() bool { return s.run.Ready() != nil })
	senders := slices.Concat(idleOnes[:10], freshOnes[:10])
	for _, c := range senders { // no delay, and yet: an idle connection is not cut for half a second
		fmt.Fprint(c, ways["resident"])
	}
	for _, c := range senders {
		if got, _ := answers(t, c, 1); got[0] != 200 {
			t.Errorf("a request in the drain got %d", got[0])
		}
		if !hasEnded(c) {
			t.Error("its connection goes on")
		}
	}
	for i := 10; i < 20; i++ {
		if !hasEnded(idleOnes[i]) || !hasEnded(freshOnes[i]) {
			t.Error("a silent connection is not ended")
		}
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if n := s.reason(t, "timeout") + s.reason(t, "truncated"); n != 0 {
		t.Errorf("%d bad requests counted", n)
	}
}
