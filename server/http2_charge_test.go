package server

import (
	"net/netip"
	"testing"

	"golang.org/x/net/http2"
)

// A request over HTTP/2 that net/http refuses without a word is charged once, as it is over HTTP/1;
// one that it serves is too, and no more.
func TestHTTP2BadRequestsAreCharged(t *testing.T) {
	t.Parallel()
	const requests, burst = 20, 1 << 20
	get := func(more ...string) []string {
		return append([]string{":method", "GET", ":scheme", "https", ":path", "/", ":authority", "a"}, more...)
	}
	for name, tt := range map[string]struct {
		fields  []string
		charged int64
		change  func(*Config)
	}{
		"served":           {get(), requests, nil},
		"a large letter":   {get("X-Large", "1"), requests, nil},
		"no path":          {get()[:4], requests, nil},
		"of a connection":  {get("connection", "close"), requests, nil},
		"a late pseudo":    {get("x", "y", ":path", "/"), requests, nil},
		"a control":        {get("x", "a\nb"), requests, nil},
		"ignored":          {get("X-Large", "1"), 0, func(c *Config) { c.BadRequests = IgnoreBadRequests }},
		"a bad target":     {get()[:6], requests, nil},
		"a host that lies": {get("host", "b"), requests, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := perIP()
			set.Rules[0].Limit.Burst = burst
			s := start(t, set, withTLS(t), func(c *Config) {
				if tt.change != nil {
					tt.change(c)
				}
			})
			f := newFramer(t, dial(t, s.addr))
			for i := range uint32(requests) {
				f.request(1+2*i, true, tt.fields...)
				f.answer(1 + 2*i)
			}
			f.conn.Close()
			eventually(t, func() bool { return s.conns.Open() == 0 })
			r := s.config().Limiter.Rules()[0]
			if got := burst - r.Peek(r.AddrKey(netip.MustParseAddr("127.0.0.1")), 0).Remaining; got != tt.charged {
				t.Errorf("%d requests charged, want %d", got, tt.charged)
			}
		})
	}
}

// What comes above the streams that there may be is not held against a client that may not have
// heard of that bound, but not for ever.
func TestHTTP2StreamsAbove(t *testing.T) {
	t.Parallel()
	const spent = 3
	for name, tt := range map[string]struct {
		streams uint32
		confirm bool
		charged uint64 // of those that are refused
	}{
		"unheard":    {150, false, 0},
		"confirmed":  {150, true, 50},
		"never told": {1100, false, 500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, perIP(), withTLS(t))
			f := newFramer(t, dial(t, s.addr))
			_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize}) // no answer can end
			if tt.confirm {
				_ = f.WriteSettingsAck()
			}
			for i := range uint32(spent) {
				f.request(1+2*i, true, post("/")...)
				f.answer(1 + 2*i) // which has no body
			}
			f.refusedUntilPing() // they have ended
			for i := range tt.streams {
				f.request(1+2*(spent+i), true, post("/")...)
			}
			if refused := f.refusedUntilPing(); refused != int(tt.streams)-100 {
				t.Fatalf("%d refused", refused)
			}
			eventually(t, func() bool { return s.http2.Stats().Streams == spent+100 })
			f.conn.Close()
			eventually(t, func() bool { return s.conns.Open() == 0 })
			if n := s.decide.Bad()["malformed"]; n != tt.charged {
				t.Errorf("%d charged, want %d", n, tt.charged)
			}
		})
	}
}

// refusedUntilPing is how many streams were reset before a PING is answered, which is after them.
func (f *framer) refusedUntilPing() (n int) {
	f.t.Helper()
	_ = f.WritePing(false, [8]byte{1})
	for {
		fr, err := f.ReadFrame()
		if err != nil {
			f.t.Fatal(err)
		}
		switch fr := fr.(type) {
		case *http2.RSTStreamFrame:
			n++
		case *http2.PingFrame:
			if fr.IsAck() {
				return n
			}
		}
	}
}

// Trailers are not requests, and a flood is charged while it lasts.
func TestHTTP2FloodsAreChargedAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t, perIP(), withTLS(t))
	f := newFramer(t, dial(t, s.addr))
	f.request(1, false, post("/")...)
	f.request(1, true, "x-trailer", "1")
	f.answer(1)
	for i := range uint32(1000) {
		f.request(3+2*i, true, append(post("/"), "X-Large", "1")...)
	}
	eventually(t, func() bool { return s.decide.Bad()["malformed"] == 500 })
	f.conn.Close()
	eventually(t, func() bool { return s.decide.Bad()["malformed"] == 1000 })
	eventually(t, func() bool { return s.conns.Open() == 0 })
	if n := s.decide.Bad()["malformed"]; n != 1000 {
		t.Errorf("%d charged", n)
	}
}

// A client that is told to go away is not charged for what it asks elsewhere.
func TestHTTP2LeavingIsNotCharged(t *testing.T) {
	t.Parallel()
	s := waitingStreams(t)
	f := newFramer(t, dial(t, s.addr))
	f.request(1, true, post("/")...)
	f.answer(1)
	f.request(3, true, post("/limited")...)
	f.answer(3)
	f.request(5, false, post("/limited")...) // keeps the connection
	eventually(t, func() bool { return s.conns.Streams() == 1 })
	stopped := make(chan error)
	go func() { stopped <- s.stop() }()
	f.answer(0) // until GOAWAY
	for i := range uint32(20) {
		f.request(7+2*i, true, post("/")...)
	}
	f.conn.Close()
	<-stopped
	if n := s.decide.Bad()["malformed"]; n != 0 {
		t.Errorf("%d charged", n)
	}
}
