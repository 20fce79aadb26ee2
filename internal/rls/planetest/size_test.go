package planetest

import (
	"flag"
	"strconv"
	"testing"
	"time"

	limit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	config "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/fastlimit/fastlimit/internal/testkit"
)

// distinct is how many keys TestKeysWithoutEnd counts.
var distinct = flag.Int("keys", 0, "distinct keys to count (0: a million, and 100 million where FASTLIMIT_SOAK is set)")

// routes is a domain of n limits, each for all users of a route.
func routes(n, requests int) *config.RateLimitConfig {
	all := make([]*config.RateLimitDescriptor, n)
	for i := range all {
		all[i] = &config.RateLimitDescriptor{Key: "route", Value: strconv.Itoa(i), Descriptors: []*config.RateLimitDescriptor{yearly("user", requests)}}
	}
	return world("shop", all...)
}

// TestManyRules: 20,000 rules are in force within 2 seconds and take less than 100 MiB, at
// their first change and at others. The fastest change counts: a stall is none of the program.
func TestManyRules(t *testing.T) {
	const rules, tries, within = 20_000, 30, 2 * time.Second
	p := newPlane(t, "127.0.0.1:0")
	r := startUp(t, p.addr)
	c := r.dial()
	p.put(routes(1, 10))
	if got := c.left("route", "0", "user", "a"); got != 9 {
		t.Fatalf("%d left, want 9", got)
	}
	before, fastest, last := r.memory("VmRSS"), time.Hour, 0
	for i := 0; i < tries || fastest > within && time.Now().Before(testkit.Deadline(t)); i++ {
		last = i
		all := routes(rules, 100+i)
		start := time.Now()
		p.put(all)
		took := time.Since(start)
		fastest = min(fastest, took)
		if got := c.left("route", strconv.Itoa(rules-1), "user", "a"); got != 99 {
			t.Errorf("%d left of the last rule at change %d, want 99", got, i)
		}
		t.Logf("%d rules: in force after %v, and %.1f MiB more", rules, took, r.memory("VmRSS")-before)
	}
	if fastest > within {
		t.Errorf("in force after %v", fastest)
	}
	t.Logf("at most %.1f MiB more", r.memory("VmHWM")-before)
	if grown := r.memory("VmHWM") - before; grown > 100 {
		t.Errorf("%.1f MiB more at most", grown)
	}
	if got := c.left("route", "0", "user", "a"); got != 100+last-2 {
		t.Errorf("%d left of the first rule: counts stay", got)
	}
}

// TestKeysWithoutEnd: with 100,000 limits in a domain, any number of keys takes the memory of
// as many as there is room for. Those that are forgotten are counted, and one with a higher
// count than theirs is not among them.
func TestKeysWithoutEnd(t *testing.T) {
	const limits, room, hot, batch = 100_000, 65_536, 1000, 1000
	keys := *distinct
	if keys == 0 {
		keys = testkit.Size(1_000_000, 100_000_000)
	}
	p := newPlane(t, "127.0.0.1:0")
	r := startUp(t, p.addr, "FASTLIMIT_CLIENTS="+strconv.Itoa(room))
	c := r.dial()
	p.put(routes(limits, enough))
	_, err := c.ask(hot, entries("route", "7", "user", "hot"))
	must(t, err)
	next := 0
	count := func(until int) float64 {
		for ; next < until; next += batch {
			all := make([]*limit.RateLimitDescriptor, batch)
			for i := range all {
				n := next + i
				all[i] = entries("route", strconv.Itoa(n%limits), "user", strconv.Itoa(n/limits))
			}
			_, err := c.ask(1, all...)
			must(t, err)
		}
		return r.memory("VmRSS")
	}
	// By then each limit has been met and the table is full.
	early := count(keys / 5)
	start := time.Now()
	late := count(keys)
	rate := float64(keys-keys/5) / time.Since(start).Seconds()
	t.Logf("%d keys of %d limits: %.1f MiB, and %.1f MiB after %d of them; %.0f a second", next, limits, late, early, keys/5, rate)
	if late > early+16 { // a byte for each of a million keys would be 1
		t.Errorf("it grows from %.1f MiB to %.1f", early, late)
	}
	held := float64(next+1) - r.metric("ratelimit_service_evictions")
	t.Logf("%.0f are held, with room for %d", held, room)
	if held < room/2 || held > room*5/4 {
		t.Errorf("%.0f keys are neither held nor counted as forgotten, with room for %d", held, room)
	}
	if got, want := c.left("route", "7", "user", "hot"), enough-hot-1; got != want {
		t.Errorf("%d left of the hot key, want %d", got, want)
	}
}
