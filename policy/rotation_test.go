package policy

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
)

// leaky is the exact bucket of one client: units times the period, in ns.
type leaky struct{ level, last int64 }

// at leaks until now, and reports whether n more units fit.
func (l *leaky) at(c *fastlimit.RuleConfig, now time.Duration, n int64) bool {
	l.level = max(0, l.level-(int64(now)-l.last)*int64(c.Rate.N))
	l.last = int64(now)
	return l.level+n*int64(c.Rate.Per) <= int64(c.Burst)*int64(c.Rate.Per)
}

// Addresses that rotate within a prefix, each below its limit, are admitted what the bucket
// of the prefix admits, which an oracle knows to the request; without prefixes all of them.
// A neighbour in another prefix notices nothing.
func TestRotationWithinPrefix(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		sources   int
		prefixes  Prefixes
		source    func(i int) netip.Addr
		neighbour string
	}{
		{"65536 /64s of a /48", 65536, Prefixes{V6: []int{48}}, func(i int) netip.Addr {
			return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, 1, byte(i >> 8), byte(i), 15: byte(i)})
		}, "2001:db8:2::1"},
		{"256 addresses of a /24", 256, Prefixes{V4: []int{24}}, func(i int) netip.Addr {
			return netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
		}, "192.0.3.1"},
		{"256 /24s of a /16", 65536, Prefixes{V4: []int{24, 16}}, func(i int) netip.Addr {
			return netip.AddrFrom4([4]byte{198, 51, byte(i), byte(i >> 8)})
		}, "198.52.0.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			with := tt.prefixes
			admitted, denied := rotate(t, tt.sources, with, tt.source, tt.neighbour)
			none, free := rotate(t, tt.sources, Prefixes{}, tt.source, tt.neighbour)
			t.Logf("%d of %d requests admitted, %d denied by the prefix; without prefixes %d admitted", admitted, admitted+denied, denied, none)
			if free != 0 || denied == 0 {
				t.Errorf("%d denied with prefixes, %d without", denied, free)
			}
		})
	}
}

// rotate sends 100 times the limit of one client for half a minute from sources picked at random,
// and asks an oracle about each decision.
func rotate(t *testing.T, sources int, p Prefixes, source func(i int) netip.Addr, neighbour string) (admitted, denied int) {
	t.Helper()
	spec := withPrefixes("a", 200, p)
	spec.Limit.Rate = fastlimit.Rate{N: 100, Per: time.Second}
	s := Settings{Rules: []RuleSpec{spec}}
	clock := new(fastlimit.ManualClock)
	lim, err := fastlimit.New(fastlimit.Config{Rules: s.Limits(), Memory: 64 << 20, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(lim, s)
	if err != nil {
		t.Fatal(err)
	}
	type client struct {
		rule string
		key  netip.Prefix
	}
	truth := map[client]*leaky{}
	var scratch Scratch
	send := func(r *Request, now time.Duration) bool {
		clock.Set(now)
		v := e.Decide(t.Context(), r, &scratch)
		want := true
		var all []*leaky
		for _, limit := range lim.Rules() {
			c := limit.Config()
			bits := c.IPv4Prefix
			if r.Client.Is6() {
				bits = c.IPv6Prefix
			}
			if made := (*engine.Rule)(limit).Index() > 0; made && (bits == 64 || bits == 32) {
				continue // of the other family
			}
			key, _ := r.Client.Prefix(bits)
			l := truth[client{c.Name, key}]
			if l == nil {
				l = new(leaky)
				truth[client{c.Name, key}] = l
			}
			want = l.at(&c, now, 1) && want
			all = append(all, l)
		}
		if v.Decision.Allowed != want {
			t.Fatalf("%v at %v: allowed %v, and the oracle says %v", r.Client, now, v.Decision.Allowed, want)
		}
		if want {
			for _, l := range all {
				l.level += int64(time.Second)
			}
		}
		return want
	}
	rng := rand.New(rand.NewPCG(1, 2))
	other, r := sampleRequest(neighbour), sampleRequest(neighbour)
	const rate, seconds = 100 * 100, 30
	for i := range rate * seconds {
		now := time.Duration(i) * time.Second / rate
		if r.Client = source(rng.IntN(sources)); send(r, now) {
			admitted++
		} else {
			denied++
		}
		if i%100 == 0 && !send(other, now) {
			t.Fatalf("the neighbour is denied at %v", now)
		}
	}
	return admitted, denied
}
