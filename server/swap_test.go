package server

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/server/internal/decide"
	"github.com/valyala/fasthttp"
)

// sideOf is a snapshot whose answers all show that they are its own: the rule is named after it, denials have
// its status, only side "a" knows /v1/decide, and side "b" has a deny list.
func sideOf(t *testing.T, name string) *decide.Snapshot {
	t.Helper()
	set := perIP()
	set.Rules[0].Limit.Name, set.Rules[0].Limit.Rate.Per = name, time.Hour
	if name == "b" {
		set.Deny = loopback()
	}
	c := newConfig(t, set)
	c.DecideAPI = name == "a"
	c.Listeners[0].DenyStatus = map[string]int{"a": 429, "b": 420}[name]
	return snapshotOf(c)
}

// checkSide reports what is wrong with an answer to a request of kind, and whether a
// rule has counted the request.
func checkSide(resp *fasthttp.Response, kind int) (counted bool, err error) {
	body, policyHeader := string(resp.Body()), string(resp.Header.PeekCanonical([]byte("RateLimit-Policy")))
	denied := func(rule string) bool {
		return strings.HasPrefix(policyHeader, `"`+rule+`";`) && strings.Contains(body, `"violated-policies":["`+rule+`"]`)
	}
	switch status := resp.StatusCode(); {
	case status == 429 && denied("a"), status == 420 && denied("b"), status == 200 && body == "":
		return true, nil
	case kind == 1 && status == 403 && policyHeader == "" && strings.Contains(body, "deny list"): // b's
		return false, nil
	case kind == 2 && status == 200 && strings.HasPrefix(body, `{"results":[{`): // a's
		return true, nil
	default:
		return false, fmt.Errorf("kind %d: %d %q %s", kind, status, policyHeader, body)
	}
}

// Snapshots are swapped under load: every answer is wholly of one of them, sums
// never fall, and at the end every request is counted once.
func TestSwap(t *testing.T) {
	t.Parallel()
	s, _ := denyWith(t, perIP())
	s.decide.Swap(sideOf(t, "a"))
	const workers, requests = 4, 4000
	var rules, lists, batches, answered atomic.Uint64
	var load sync.WaitGroup
	for w := range workers {
		load.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 5))
			handle := s.decide.Handlers(0).Request
			for range requests {
				kind := rnd.IntN(3)
				ip := net.IPv4(192, 0, 2, byte(rnd.IntN(20)))
				if kind == 1 {
					ip = net.IPv4(127, 0, 0, byte(1+rnd.IntN(20)))
				}
				ctx := newContext(&net.TCPAddr{IP: ip, Port: 1})
				if kind == 2 {
					ctx.Request.Header.SetMethod("POST")
					ctx.Request.SetRequestURI("/v1/decide")
					ctx.Request.Header.SetContentType("application/json")
					ctx.Request.SetBodyStream(strings.NewReader(`{"requests":[{"rule":"a","key":["192.0.2.7"]}]}`), -1)
				}
				handle(ctx)
				answered.Add(1)
				runtime.Gosched() // to the swaps, on one processor
				counted, err := checkSide(&ctx.Response, kind)
				switch {
				case err != nil:
					t.Error(err)
				case counted:
					rules.Add(1)
				default:
					lists.Add(1)
				}
				if len(ctx.Response.Body()) > 0 && ctx.Response.Body()[0] == '{' && strings.HasPrefix(string(ctx.Response.Body()), `{"results"`) {
					batches.Add(1)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { load.Wait(); close(done) }()
	swaps, highest := 0, uint64(0)
	sides := [2]*decide.Snapshot{sideOf(t, "a"), sideOf(t, "b")}
	for loaded := true; loaded; swaps++ {
		for before := answered.Load(); loaded && answered.Load() == before; { // each holds for some
			select {
			case <-done:
				loaded = false
			default:
				runtime.Gosched()
			}
		}
		if swaps%39 == 38 { // rules that never come back; made while one side holds, and then the other
			sides = [2]*decide.Snapshot{sideOf(t, "a"), sideOf(t, "b")}
		}
		s.decide.Swap(sides[swaps%2])
		if n := countedByRules(s); n < highest {
			t.Errorf("swap %d: the sum falls from %d to %d", swaps, highest, n)
		} else {
			highest = n
		}
	}
	if rules.Load()+lists.Load() != workers*requests || lists.Load() == 0 || batches.Load() == 0 || swaps < 3 {
		t.Errorf("%d answers by rules, %d by lists, %d batches, %d swaps", rules.Load(), lists.Load(), batches.Load(), swaps)
	}
	for second := range 100 { // the numbers stay when the rules are let go
		if n := countedByRules(s); n != rules.Load() {
			t.Fatalf("after %d s the rules have counted %d, want %d", second, n, rules.Load())
		}
		s.decide.EndSecond()
	}
	n := s.decide.Requests()
	if n.ListDenied != lists.Load() || n.Allowed+n.Denied != rules.Load()-batches.Load() || n.ListAllowed != 0 {
		t.Errorf("%+v, want %d by rules and %d by lists", n, rules.Load()-batches.Load(), lists.Load())
	}
	if m := s.stats().Rules; len(m) != 3 { // that of the beginning, a and b
		t.Errorf("%d rules on /metrics", len(m))
	}
}

func countedByRules(s *Server) (n uint64) {
	for _, r := range s.stats().Rules {
		n += sum(r.Allowed[:]) + sum(r.Denied[:])
	}
	return n
}

// What operators see is of the snapshot in use.
func TestSwapShows(t *testing.T) {
	t.Parallel()
	s := start(t, perIP())
	s.decide.Swap(sideOf(t, "b"))
	for path, want := range map[string]string{"/v1/info": `"deny_status": 420`, "/metrics": `fastlimit_sketch_load{rule="b"}`} {
		if body := string(readAll(t, get(t, "http://"+s.admin+path))); !strings.Contains(body, want) || strings.Contains(body, `load{rule="per-ip"}`) {
			t.Errorf("%s: %s", path, body)
		}
	}
	if resp := get(t, "http://"+s.addr+"/"); resp.StatusCode != 403 {
		t.Errorf("a client on the new deny list got %d", resp.StatusCode)
	}
}

// swapping is a body; to read it swaps the snapshots.
type swapping struct {
	io.Reader
	swap func()
}

func (b swapping) Read(p []byte) (int, error) {
	b.swap()
	return b.Reader.Read(p)
}

// A request that has begun ends by the snapshot with which it began: decision,
// answer, whether /v1/decide is served, and what is counted.
func TestSwapInTheMiddleOfARequest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, to, path string
		status         int
		has            string
	}{
		{"a", "b", "/", 429, `"violated-policies":["a"]`},
		{"b", "a", "/", 420, `"violated-policies":["b"]`},
		{"a", "b", "/v1/decide", 200, `{"results":[{"allowed":false`},
		{"b", "a", "/v1/decide", 420, `"violated-policies":["b"]`},
	} {
		s, _ := denyWith(t, perIP())
		from, to := sideOf(t, c.from), sideOf(t, c.to)
		s.decide.Swap(from)
		s.from("192.0.2.7", 3) // the burst
		ctx := newContext(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 1})
		ctx.Request.Header.SetMethod("POST")
		ctx.Request.SetRequestURI(c.path)
		ctx.Request.Header.SetContentType("application/json")
		ctx.Request.SetBodyStream(swapping{
			strings.NewReader(`{"requests":[{"rule":"a","key":["192.0.2.7"]}]}`), func() { s.decide.Swap(to) },
		}, -1)
		s.decide.Handlers(0).Request(ctx)
		if s.decide.Snapshot() != to {
			t.Fatal("not swapped")
		}
		if got := ctx.Response.StatusCode(); got != c.status || !strings.Contains(string(ctx.Response.Body()), c.has) {
			t.Errorf("%s to %s, %s: %d %s, want %d with %s", c.from, c.to, c.path, got, ctx.Response.Body(), c.status, c.has)
		}
		if st := from.Settings().Limiter.Rules()[0].Stats(); sum(st.Allowed[:])+sum(st.Denied[:]) != 4 {
			t.Errorf("%s to %s, %s: its rule has counted %+v", c.from, c.to, c.path, st)
		}
	}
}

// snapshotOf is what a server of that configuration decides by.
func snapshotOf(c Config) *decide.Snapshot {
	now := &state{config: c}
	for _, l := range c.Listeners {
		now.places = append(now.places, place{Listener: l})
	}
	return now.snapshot()
}
