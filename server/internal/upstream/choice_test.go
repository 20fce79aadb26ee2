package upstream

import (
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// The least busy server is chosen, ties in turn, and of its connections the last one used.
func TestLeastBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		p := newPool(t, Config{Servers: servers(3), MaxConnections: 100, dial: w.dial})
		defer p.Close()
		var all []*Conn
		for range 9 {
			all = append(all, mustGet(t, p))
		}
		for _, s := range p.Stats().Servers {
			if s.InUse != 3 {
				t.Errorf("server %s has %d of 9", s.Name, s.InUse)
			}
		}
		for _, c := range all {
			if c.Server() == "b" {
				p.Put(c)
			}
		}
		var last *Conn
		for range 3 { // b has none in use
			c := mustGet(t, p)
			if c.Server() != "b" || !c.Reused() || last == c {
				t.Errorf("got one of %s, reused %v", c.Server(), c.Reused())
			}
			last = c
		}
		p.Put(last)
		if c := mustGet(t, p); c != last {
			t.Error("not the one returned last")
		}
		turns := map[string]int{}
		for range 30 {
			c := mustGet(t, p)
			turns[c.Server()]++
			p.Put(c)
		}
		if turns["a"] != 10 || turns["b"] != 10 || turns["c"] != 10 {
			t.Errorf("turns %v", turns)
		}
	})
}

// An idle connection of another server makes room.
func TestRoomOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		p := newPool(t, Config{Servers: servers(2), MaxConnections: 2, dial: w.dial})
		defer p.Close()
		a, b := mustGet(t, p), mustGet(t, p)
		p.Put(b)
		p.Put(a)
		a = mustGet(t, p)
		p.Discard(mustGet(t, p), Fine)
		c := mustGet(t, p) // room of its own
		p.Put(a)
		d := mustGet(t, p)
		if d.Server() == c.Server() {
			t.Error("both of one server")
		}
		p.Put(d)
		if _, err := p.Get(netip.Addr{}, nil, true); err != nil {
			t.Error(err)
		}
		check(t, p, w)
		if got := w.open.Load(); got != 2 {
			t.Errorf("%d open", got)
		}
	})
}

// A server that fails three times in a row is left out for 1 s, then 2, 4, and so on up to
// 30; one request at a time tries it, and an answer takes it back.
func TestEjection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, down: map[string]bool{}, dialed: map[string]int{}}
		p := newPool(t, Config{Servers: servers(2), MaxConnections: 100, KeepAlive: time.Hour, dial: w.dial})
		defer p.Close()
		spare := mustGet(t, p)
		p.Put(spare)
		w.down["b"] = true
		ask := func() string {
			t.Helper()
			c := mustGet(t, p)
			defer p.Put(c)
			return c.Server()
		}
		for range 10 {
			if got := ask(); got != "a" {
				t.Fatalf("%s served", got)
			}
		}
		if w.dialed["b"] != failuresToEject {
			t.Errorf("%d dials of a server that is down", w.dialed["b"])
		}
		for i, pause := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
			before := w.dialed["b"]
			time.Sleep(pause*time.Second - time.Millisecond)
			ask()
			if w.dialed["b"] != before {
				t.Errorf("pause %d: tried early", i)
			}
			time.Sleep(time.Millisecond)
			ask()
			ask()
			if w.dialed["b"] != before+1 {
				t.Errorf("pause %d: tried %d times", i, w.dialed["b"]-before)
			}
		}
		w.down["b"] = false
		time.Sleep(30 * time.Second)
		probe := mustGet(t, p)
		if probe.Server() != "b" {
			t.Error("not tried")
		}
		for range 5 { // one at a time
			if got := ask(); got != "a" {
				t.Error("tried by two")
			}
		}
		p.Discard(probe, Unknown) // which says nothing
		probe = mustGet(t, p)
		if probe.Server() != "b" || !p.Stats().Servers[1].Ejected {
			t.Error("not tried again")
		}
		probe.Healthy()
		if p.Stats().Servers[1].Ejected {
			t.Error("not taken back")
		}
		p.Put(probe)
		if s := p.Stats().Servers[1]; s.Ejections != 1 || s.DialErrors["refused"] != 10 || s.DialErrors["timeout"] != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

// Failures of requests that had begun before do not prolong an ejection, and answers to
// such requests do not end it; an answer between failures makes them not in a row.
func TestFailuresOfEarlierRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		p := newPool(t, Config{Servers: servers(1), MaxConnections: 100, dial: w.dial})
		defer p.Close()
		var all []*Conn
		for range 20 {
			all = append(all, mustGet(t, p))
		}
		p.Discard(all[0], Failed)
		p.Discard(all[1], Failed)
		p.Put(all[2])
		p.Discard(all[3], Failed)
		p.Discard(all[4], Failed)
		if p.Stats().Servers[0].Ejected {
			t.Fatal("not in a row")
		}
		for _, c := range all[5:15] {
			p.Discard(c, Failed)
		}
		s := p.servers[0]
		if !s.ejected || s.pause != minEjection || s.idle.len != 0 || w.open.Load() != 5 {
			t.Fatalf("ejected %v for %v, %d idle, %d open", s.ejected, s.pause, s.idle.len, w.open.Load())
		}
		p.Put(all[15])
		p.Discard(all[16], Fine)
		if !s.ejected || s.idle.len != 0 {
			t.Error("taken back by an answer to an earlier request")
		}
		p.Put(mustGet(t, p))
		if s.ejected || s.idle.len != 1 {
			t.Error("not taken back")
		}
		for _, c := range all[17:] {
			p.Put(c)
		}
	})
}

// Nobody is refused while something may work: with all servers ejected each is tried, and
// a single one always, so it is back with the first request.
func TestAllEjected(t *testing.T) {
	for n := 1; n <= 3; n++ {
		synctest.Test(t, func(t *testing.T) {
			w := &world{t: t, down: map[string]bool{"a": true, "b": true, "c": true}, dialed: map[string]int{}}
			p := newPool(t, Config{Servers: servers(n), MaxConnections: 4, dial: w.dial})
			defer p.Close()
			for range 10 {
				start := time.Now()
				_, err := p.Get(netip.Addr{}, nil, false)
				if dial := (*DialError)(nil); !errors.As(err, &dial) || dial.Timeout || time.Since(start) != 0 {
					t.Fatalf("%v after %v", err, time.Since(start))
				}
			}
			for name, tried := range w.dialed {
				if tried != 10 {
					t.Errorf("%s was tried %d times by 10 requests", name, tried)
				}
			}
			w.down["b"], w.down["a"] = false, n > 1
			c := mustGet(t, p)
			if want := map[bool]string{true: "b", false: "a"}[n > 1]; c.Server() != want {
				t.Errorf("%s has served", c.Server())
			}
			p.Put(c)
			check(t, p, w)
		})
	}
}

// Connections that nobody needs are closed after KeepAlive, at 7/8 of it at the earliest.
func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		p := newPool(t, Config{Servers: servers(2), dial: w.dial})
		defer p.Close()
		for offset := range 16 {
			a, b := mustGet(t, p), mustGet(t, p)
			time.Sleep(time.Duration(offset) * 37 * time.Millisecond)
			p.Put(a)
			p.Put(b)
			time.Sleep(defaultKeepAlive * 7 / 8)
			synctest.Wait()
			if w.open.Load() != 2 {
				t.Error("closed early")
			}
			time.Sleep(defaultKeepAlive / 8)
			synctest.Wait()
			if w.open.Load() != 0 {
				t.Error("kept")
			}
			check(t, p, w)
		}
	})
}

// What fails here is nobody's failure.
func TestLocalFailures(t *testing.T) {
	for class, err := range map[string]error{"local": errLocal, "timeout": errSlow, "resolve": errName, "refused": errAway, "other": errors.New("odd")} {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, Config{Servers: servers(1), dial: failing(err)})
			defer p.Close()
			for range 5 {
				_, got := p.Get(netip.Addr{}, nil, false)
				if dial := (*DialError)(nil); !errors.As(got, &dial) || !errors.Is(got, err) || dial.Server != "a" || dial.Timeout != (class == "timeout") {
					t.Errorf("%s: %v", class, got)
				}
			}
			if s := p.Stats().Servers[0]; s.DialErrors[class] != 5 || s.Ejected != (class != "local") || s.InUse != 0 || s.Requests != 0 {
				t.Errorf("%s: %+v", class, s)
			}
		})
	}
}
