package server

import (
	"io"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// Clients that give up what they ask for, at once or as soon as it is in progress, have few
// requests in progress at any time, get no more than their limit, and are cut off.
func TestHTTP2RapidReset(t *testing.T) {
	t.Parallel()
	for _, paced := range []bool{false, true} {
		set := daily()
		limit := &set.Rules[0].Limit
		limit.MaxWait, limit.Burst, limit.Rate.Per = time.Hour, 1, time.Hour // so that requests stay
		s := start(t, set, withTLS(t))
		f := newFramer(t, dial(t, s.addr))
		go func() { _, _ = io.Copy(io.Discard, f.conn) }() // a client that does not read is cut off for that
		most, begun := 0, uint64(0)
		for id := uint32(1); id < 20000; id += 2 {
			f.request(id, true, ":method", "GET", ":scheme", "https", ":path", "/limited", ":authority", "a")
			if begun++; paced {
				eventually(t, func() bool { return s.http2.Stats().Streams == begun || s.conns.Open() == 0 })
			}
			if f.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
				break
			}
			most = max(most, s.conns.Streams())
		}
		eventually(t, func() bool { return s.conns.Open() == 0 })
		n := s.http2.Stats()
		// More than half of its requests are resets, of which maxResets and those in progress are counted.
		if most > 100 || n.Resets > 600 || n.Streams > 2*600 || paced && (n.Resets < 400 || n.Cut != 1) {
			t.Errorf("paced %v: %d of %d requests at a time, %+v", paced, most, begun, n)
		}
		if counts := s.decide.Requests(); counts.Allowed > 1 || counts.Allowed+counts.Denied > n.Streams {
			t.Errorf("%+v, %+v", counts, n)
		}
		if s.conns.Streams() != 0 || n.Connections != 0 {
			t.Error("a stream is left")
		}
	}
}

// Connections and their streams end as those of HTTP/1 do: in a drain after the answer, and
// if they are idle or too slow at their timeouts; the client is told to go away.
func TestHTTP2Ends(t *testing.T) {
	t.Parallel()
	begin := func(s *running) *framer { return newFramer(t, dial(t, s.addr)) }
	batch := append(post("/v1/decide"), "content-type", "application/json") // only a batch needs its body

	s := start(t, generous(), withTLS(t), func(c *Config) { c.DecideAPI, c.Drain.Timeout = true, 20*time.Second })
	busy, idle := begin(s), begin(s)
	busy.request(1, false, batch...)
	idle.request(1, true, post("/")...)
	if got := idle.answer(1); got != "200" {
		t.Fatal(got)
	}
	eventually(t, func() bool { return s.conns.Streams() == 1 })
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	if got := idle.answer(3); got != "GOAWAY NO_ERROR" {
		t.Errorf("an idle connection ends with %s", got)
	}
	idle.conn.Close()
	_ = busy.WriteData(1, true, []byte("abc"))
	ends := []string{busy.answer(1), busy.answer(1)} // whichever comes first
	if slices.Sort(ends); !slices.Equal(ends, []string{"400", "GOAWAY NO_ERROR"}) {
		t.Errorf("a request in flight ends with %q", ends)
	}
	busy.conn.Close()
	if err := <-stopped; err != nil {
		t.Error(err)
	}

	slow := start(t, generous(), withTLS(t), func(c *Config) {
		c.DecideAPI = true
		c.Connections.HeaderTimeout, c.Connections.IdleTimeout = 200*time.Millisecond, 500*time.Millisecond
	})
	f := begin(slow)
	f.request(1, false, batch...) // and no body
	f.request(3, true, post("/")...)
	if a, b := f.answer(3), f.answer(1); a != "200" || b != "408" {
		t.Errorf("%s, and a body that does not come: %s", a, b)
	}
	if got := f.answer(5); got != "GOAWAY NO_ERROR" {
		t.Errorf("idle: %s", got)
	}
	eventually(t, func() bool { return slow.conns.Open() == 0 })
	if silent := begin(slow); silent.answer(1) != "closed" {
		t.Error("a connection without requests stays")
	}
}

// Where connections are nearly full a denied client is told to go away, and an idle connection
// makes room, as with HTTP/1; one with a request that is being answered does not.
func TestHTTP2MakesRoom(t *testing.T) {
	t.Parallel()
	s := start(t, daily(), withTLS(t), func(c *Config) { c.Connections.Max = 2 })
	get := func(path string) []string {
		return []string{":method", "GET", ":scheme", "https", ":path", path, ":authority", "a"}
	}
	var all [4]*framer
	for i := range all {
		all[i] = newFramer(t, dial(t, s.addr))
		all[i].request(1, true, get("/")...)
		if got := all[i].answer(1); got != "200" {
			t.Fatalf("connection %d: %s", i, got)
		}
	}
	eventually(t, func() bool { return s.conns.Open() == 2 && s.http2.Stats().Connections == 2 })
	if n := s.conns.Dismissed()["full"]; n != 2 {
		t.Errorf("%d made room", n)
	}
	last := all[3]
	id := uint32(3)
	for ; id < 13; id += 2 {
		last.request(id, true, get("/limited")...)
		if last.answer(id) != "200" {
			break
		}
	}
	if n := s.decide.Requests().Denied; n != 1 || id != 9 || s.conns.Dismissed()["denied"] != 1 {
		t.Errorf("%d are denied, the last is %d", n, id)
	}
	if got := last.answer(id + 2); got != "GOAWAY NO_ERROR" && got != "closed" { // it may have come before the denial
		t.Errorf("after a denial: %s", got)
	}
}

// http2: false leaves HTTP/1.1.
func TestHTTP2IsOff(t *testing.T) {
	t.Parallel()
	s := start(t, generous(), withTLS(t), func(c *Config) { c.Listeners[0].TLS.NoHTTP2 = true })
	if _, err := httpsClient(t, true).Get("https://" + s.addr + "/"); err == nil {
		t.Error("HTTP/2 is spoken")
	}
	if got := ask2(t, httpsClient(t, false), "GET", "https://"+s.addr+"/", ""); got.status != 200 {
		t.Errorf("%+v", got)
	}
}
