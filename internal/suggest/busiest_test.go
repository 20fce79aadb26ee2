package suggest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/policy"
)

// ordinary is half an hour of 20 networks of visitors.
func ordinary() (hits []hit) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 6000 {
		at := time.Duration(rnd.Int64N(int64(30 * time.Minute)))
		hits = append(hits, hit{at, netip.AddrFrom4([4]byte{198, byte(rnd.IntN(20)), byte(rnd.IntN(4)), byte(rnd.IntN(50))}), fmt.Sprintf("/page/%d", rnd.IntN(30))})
	}
	return hits
}

// flooded adds 300 clients of one network that each send once a second for a minute.
func flooded(hits []hit, client func(i int) netip.Addr, path func(i int) string) []hit {
	for second := range 60 {
		for i := range 300 {
			hits = append(hits, hit{11*time.Minute + time.Duration(second)*time.Second, client(i), path(i)})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(a.at, b.at) })
	return hits
}

// extended is the report of a log that is read again for what it calls for.
func extended(t *testing.T, log string) *Report {
	t.Helper()
	c := Config{Keys: []policy.RuleSpec{mustKey(t, "ip")}, Spare: 999 * percent / 10}
	first := suggestFor(t, log, c)
	if !first.Extend(&c) {
		return first
	}
	again := suggestFor(t, log, c)
	if again.Extend(&c) {
		t.Error("what was added is to be added again")
	}
	return again
}

func network(i int) netip.Addr { return netip.AddrFrom4([4]byte{203, 0, byte(i / 100), byte(i % 100)}) }

// A flood whose clients each send little is reported by what they share, and the rule that counts that denies
// it.
func TestBusiest(t *testing.T) {
	t.Parallel()
	many := func(i int) string { return fmt.Sprintf("/page/%d", i%30) }
	for name, c := range map[string]struct {
		client func(i int) netip.Addr
		path   func(i int) string
		few    string // by, groups
		rule   string // that there is then
		denied string // by it
	}{
		"a wide network":  {network, many, "net 203.0.0.0/16; path /page/*", "ip/16/32", "203.0.0.0/16"},
		"a small network": {func(i int) netip.Addr { return netip.AddrFrom4([4]byte{203, 0, 113, byte(i)}) }, many, "net 203.0.113.0/24; path /page/*", "ip/24/48", "203.0.113.0/24"},
		"two networks": {
			func(i int) netip.Addr {
				return netip.AddrFrom4([4]byte{byte(203 + i%2), 0, byte(i / 100), byte(i % 100)})
			}, many,
			"net 203.0.0.0/16 204.0.0.0/16; path /page/*", "ip/16/32", "203.0.0.0/16 204.0.0.0/16",
		},
		"a site of IPv6": {func(i int) netip.Addr {
			return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, 9, byte(i >> 8), byte(i), 15: 1})
		}, many, "net 2001:db8:9::/48; path /page/*", "ip/24/48", "2001:db8:9::/48"},
		"clients from everywhere": {
			func(i int) netip.Addr { return netip.AddrFrom4([4]byte{byte(i % 200), byte(i), 1, 1}) }, func(int) string { return "/login" },
			"path /login", "ip on /login", "",
		},
		"one client": {func(int) netip.Addr { return network(1) }, many, "path /page/*", "", ""},
	} {
		log := logOf(flooded(ordinary(), c.client, c.path), wholeSeconds)
		r := extended(t, log)
		var few []string
		for _, f := range r.Busiest.Few {
			text := f.By
			for _, p := range f.Groups {
				text += " " + p.Group
			}
			few = append(few, text)
		}
		if got := strings.Join(few, "; "); got != c.few {
			t.Errorf("%s: %s, want %s", name, got, c.few)
		}
		at := slices.IndexFunc(r.Keys, func(k Key) bool { return k.name == c.rule })
		if c.rule == "" {
			if len(r.Keys) != 1 {
				t.Errorf("%s: %d keys, want that of ip alone", name, len(r.Keys))
			}
			continue
		}
		if at < 0 {
			t.Errorf("%s: no rule by %s", name, c.rule)
			continue
		}
		var denied []string
		for client := range r.check(t, log)[at] {
			denied = append(denied, client)
		}
		slices.Sort(denied)
		if got := strings.Join(denied, " "); got != c.denied {
			t.Errorf("%s: %s denies %s, want %s", name, c.rule, got, c.denied)
		}
	}
}

// Of two networks none stands out by its need, but one has most of the load: the limit is chosen
// by the other.
func TestBusiestOfTwoNetworks(t *testing.T) {
	t.Parallel()
	hits := ordinary()
	for i := range hits {
		hits[i].client = netip.AddrFrom4([4]byte{198, 51, byte(i), byte(i >> 8)})
	}
	log := logOf(flooded(hits, network, func(int) string { return "/" }), wholeSeconds)
	r := extended(t, log)
	at := slices.IndexFunc(r.Keys, func(k Key) bool { return k.name == "ip/16/32" })
	if at < 0 || len(r.Keys[at].Attackers) != 1 || r.Keys[at].Attackers[0].Key != "203.0.0.0/16" || !r.check(t, log)[at]["203.0.0.0/16"] {
		t.Errorf("%+v, want 203.0.0.0/16 denied", r.Keys)
	}
}

// The window and its numbers equal those of an exact count.
func TestBusiestAgainstCounting(t *testing.T) {
	t.Parallel()
	hits := flooded(ordinary(), network, func(i int) string { return "/search" })
	counts, from := map[time.Duration]uint64{}, map[time.Duration]uint64{}
	for _, h := range hits {
		w := h.at.Truncate(5 * time.Minute)
		counts[w]++
		if netip.MustParsePrefix("203.0.0.0/16").Contains(h.client) {
			from[w]++
		}
	}
	most := 10 * time.Minute
	for w, n := range counts {
		if n > counts[most] {
			most = w
		}
	}
	b := suggestFor(t, logOf(hits, fractions), Config{Keys: []policy.RuleSpec{mustKey(t, "ip")}}).Busiest
	if b.From != start.Add(most).Format(time.RFC3339) || b.To != start.Add(most+5*time.Minute).Format(time.RFC3339) || b.Requests != counts[most] {
		t.Errorf("%s to %s: %d requests, want %v: %d", b.From, b.To, b.Requests, most, counts[most])
	}
	if got := b.Few[0].Groups[0]; got.Requests > from[most] || got.Requests < from[most]*99/100 || got.Share != float64(got.Requests)/float64(b.Requests) {
		t.Errorf("%+v, want %d requests", got, from[most])
	}
}

// A client that sends more than all others of its network does not hide them.
func TestBusiestBesideALoudClient(t *testing.T) {
	t.Parallel()
	hits := flooded(ordinary(), func(i int) netip.Addr { return netip.AddrFrom4([4]byte{203, 0, 113, byte(max(0, i-160))}) }, func(int) string { return "/" })
	b := suggestFor(t, logOf(hits, fractions), Config{Keys: []policy.RuleSpec{mustKey(t, "ip")}}).Busiest
	if len(b.Few) == 0 || b.Few[0].By != "net" || b.Few[0].Groups[0].Group != "203.0.113.0/24" || b.Few[0].Groups[0].Requests < 8_000 || b.Few[0].Of > b.Requests-9_500 {
		t.Errorf("%+v, want 203.0.113.0/24 with its 139 quiet clients", b.Few)
	}
	if got := b.Summary(b.Few[0]); !strings.Contains(got, " from single clients, came from 1 network") {
		t.Error(got)
	}
}

// Few requests are no load, and a load of many is none of few.
func TestBusiestOfNothing(t *testing.T) {
	t.Parallel()
	c := Config{Keys: []policy.RuleSpec{mustKey(t, "ip")}}
	if r := suggestFor(t, "", c); r.Busiest != nil || r.Extend(&c) {
		t.Error("of an empty log")
	}
	if r := suggestFor(t, logOf([]hit{{0, network(1), "/"}, {0, network(2), "/"}}, wholeSeconds), c); r.Busiest != nil {
		t.Errorf("of two requests: %+v", r.Busiest)
	}
	hits := ordinary()
	for i := range hits {
		hits[i].path = fmt.Sprintf("/%d/a", i%40)
	}
	if r := suggestFor(t, logOf(hits, wholeSeconds), c); r.Busiest == nil || len(r.Busiest.Few) != 0 {
		t.Errorf("of many: %+v", r.Busiest)
	}
}

// A path that no pattern can name has no rule, and one that everybody asks for none of its own.
func TestBusiestPaths(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]int{"/login": 1, "/a*b": 0, "/*": 0, "/search%3Fq": 0, "/" + strings.Repeat("x", 200): 0} {
		hits := flooded(ordinary(), func(i int) netip.Addr { return netip.AddrFrom4([4]byte{byte(i % 200), byte(i), 1, 1}) }, func(int) string { return path })
		c := Config{Keys: []policy.RuleSpec{mustKey(t, "ip")}}
		r := suggestFor(t, logOf(hits, wholeSeconds), c)
		if more := r.Extend(&c); len(r.Busiest.Few) != 1 || len(c.Keys) != 1+want || more != (want == 1) {
			t.Errorf("%s: %+v, %d keys, want %d", path, r.Busiest.Few, len(c.Keys), 1+want)
		}
	}
	hits := ordinary()
	for i := range hits {
		hits[i].path = "/"
	}
	if r := extended(t, logOf(hits, wholeSeconds)); len(r.Keys) != 1 || len(r.Busiest.Few) != 1 {
		t.Errorf("%+v, %d rules, want / without a rule", r.Busiest.Few, len(r.Keys))
	}
	for i := range hits {
		if hits[i].path = "/api/main"; i%3 == 0 {
			hits[i].path = fmt.Sprintf("/api/%d", i%100)
		}
	}
	hits = flooded(hits, func(i int) netip.Addr { return netip.AddrFrom4([4]byte{byte(i % 200), byte(i), 1, 1}) }, func(i int) string { return fmt.Sprintf("/api/%d", i) })
	if r := extended(t, logOf(hits, wholeSeconds)); len(r.Keys) != 1 || len(r.Busiest.Few) != 1 || r.Busiest.Few[0].Groups[0].Group != "/api/*" {
		t.Errorf("%+v, %d rules, want /api/* without a rule", r.Busiest.Few, len(r.Keys))
	}
}
