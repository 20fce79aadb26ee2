package server

import (
	"maps"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/testkit/rawhttp"
	"golang.org/x/net/http2"
)

func dialHTTP2(t testing.TB, from, addr string) *framer {
	t.Helper()
	return newFramer(t, rawhttp.DialFrom(t, from, addr))
}

func post(path string) []string {
	return []string{":method", "POST", ":scheme", "https", ":path", path, ":authority", "a"}
}

// A request is decided on its head: a body that never ends holds nothing, and each is charged.
func TestHTTP2DecidesOnTheHead(t *testing.T) {
	t.Parallel()
	s := start(t, daily(), withTLS(t)) // 3 of a day
	f := newFramer(t, dial(t, s.addr))
	for i, want := range []string{"200", "200", "200", "429", "429"} {
		id := uint32(2*i + 1)
		f.request(id, false, post("/limited")...)
		if got := f.answer(id); got != want {
			t.Fatalf("request %d: %s", i, got)
		}
		if got := f.answer(id); got != http2.ErrCodeNo.String() { // what is left of the body is not wanted
			t.Fatalf("request %d: %s", i, got)
		}
	}
	eventually(t, func() bool { return s.conns.Streams() == 0 })
	if got := s.decide.Requests(); got.Allowed != 3 || got.Denied != 2 {
		t.Errorf("%+v", got)
	}
}

// A body of another length than its head says is net/http's to refuse, and no other request.
func TestHTTP2BodiesOfAnotherLength(t *testing.T) {
	t.Parallel()
	s := start(t, generous(), withTLS(t))
	for _, body := range []string{"a", "abcGET / HTTP/1.1\r\nHost: a\r\n\r\n"} {
		before := s.counts()[0]
		f := newFramer(t, dial(t, s.addr))
		f.request(1, false, append(post("/"), "content-length", "2")...)
		_ = f.WriteData(1, true, []byte(body))
		if got := f.answer(1); got != "200" && got != http2.ErrCodeProtocol.String() { // 200: decided before that was known
			t.Errorf("%q: %s", body, got)
		}
		eventually(t, func() bool { f.conn.Close(); return s.conns.Open() == 0 })
		if n := s.counts()[0] - before; n > 1 {
			t.Errorf("%q: %d requests", body, n)
		}
	}
}

// waitingStreams serves requests for /limited of which a client gets one at once, and then one
// every six minutes.
func waitingStreams(t *testing.T, more ...func(*Config)) *running {
	t.Helper()
	set := daily()
	limit := &set.Rules[0].Limit
	limit.MaxWait, limit.Burst, limit.Rate = time.Hour, 1, fastlimit.Rate{N: 10, Per: time.Hour}
	return start(t, set, append(more, withTLS(t))...)
}

// A client has so many requests in progress on all its connections, others have theirs.
func TestHTTP2StreamsOfAClient(t *testing.T) {
	t.Parallel()
	s := waitingStreams(t, func(c *Config) { c.Connections.MaxStreamsPerClient = 3 })
	hostile := [2]*framer{dialHTTP2(t, "127.0.0.5", s.addr), dialHTTP2(t, "127.0.0.5", s.addr)}
	hostile[0].request(1, true, post("/limited")...)
	if got := hostile[0].answer(1); got != "200" {
		t.Fatal(got)
	}
	hostile[0].request(3, true, post("/limited")...)
	hostile[1].request(1, true, post("/limited")...)
	hostile[1].request(3, true, post("/limited")...)
	eventually(t, func() bool { return s.conns.Streams() == 3 })
	for i, f := range hostile {
		id := uint32(7 + 2*i)
		f.request(id, true, post("/")...)
		if got := f.answer(id); got != "503" {
			t.Errorf("connection %d: one too many gets %s", i, got)
		}
	}
	other := dialHTTP2(t, "127.0.0.6", s.addr)
	other.request(1, true, post("/")...)
	if got := other.answer(1); got != "200" {
		t.Errorf("another client gets %s", got)
	}
	if got, want := s.conns.RefusedStreams(), map[string]uint64{"full": 0, "client": 2}; !maps.Equal(got, want) {
		t.Errorf("refused: %v", got)
	}
	_ = hostile[0].WriteRSTStream(3, http2.ErrCodeCancel)
	eventually(t, func() bool { return s.conns.Streams() == 2 })
	hostile[1].request(11, true, post("/")...)
	if got := hostile[1].answer(11); got != "200" {
		t.Errorf("after one was given up: %s", got)
	}
}

// All clients together have one stream on each connection, and beyond that as many as there
// may be connections.
func TestHTTP2StreamsInAll(t *testing.T) {
	t.Parallel()
	s := waitingStreams(t, func(c *Config) { c.Connections.Max = 4 })
	var all []*framer
	for _, from := range []string{"127.0.0.5", "127.0.0.6"} {
		f := dialHTTP2(t, from, s.addr)
		f.request(1, true, post("/limited")...)
		if got := f.answer(1); got != "200" {
			t.Fatal(got)
		}
		all = append(all, f)
	}
	for id := uint32(3); id < 13; id += 2 {
		all[0].request(id, true, post("/limited")...)
	}
	eventually(t, func() bool { return s.conns.Streams() == 5 })
	all[1].request(3, true, post("/limited")...) // its first
	eventually(t, func() bool { return s.conns.Streams() == 6 })
	all[1].request(5, true, post("/")...)
	if got := all[1].answer(5); got != "503" {
		t.Errorf("one too many gets %s", got)
	}
	if got, want := s.conns.RefusedStreams(), map[string]uint64{"full": 1, "client": 0}; !maps.Equal(got, want) {
		t.Errorf("refused: %v", got)
	}
	all[0].conn.Close()
	eventually(t, func() bool { return s.conns.Streams() == 1 })
	all[1].request(7, true, post("/")...)
	if got := all[1].answer(7); got != "200" {
		t.Errorf("after those of another client: %s", got)
	}
}
