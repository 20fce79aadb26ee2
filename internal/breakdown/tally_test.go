package breakdown

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// streams are requests in which the heavy hide: in crowds of clients and paths that come once.
func streams(rng *rand.Rand, n int) (all []Request) {
	few := 1 + rng.IntN(20)
	for range n {
		a := netip.AddrFrom4([4]byte{byte(rng.IntN(4)), byte(rng.IntN(1 + few)), byte(rng.IntN(256)), byte(rng.IntN(256))})
		path := fmt.Sprintf("/%d/%d", rng.IntN(600), rng.IntN(100))
		if rng.IntN(3) == 0 {
			a, path = netip.AddrFrom4([4]byte{9, 9, byte(rng.IntN(few)), 1}), fmt.Sprintf("/login/%d", rng.IntN(few))
		}
		all = append(all, Request{Client: a, Path: []byte(path), Method: []byte("GET"), Status: 200 + rng.IntN(few), Denied: rng.IntN(2) == 0})
	}
	return all
}

// Each group of a table has its reported number of requests, within its error; each with more than its share
// of a table is there; and nothing is in two groups that are shown.
func TestBounds(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 40 {
		tallies := []*Tally{new(Tally), new(Tally)}
		exact, denied := [len(levels)]map[string]uint64{}, [len(levels)]map[string]uint64{}
		for i := range levels {
			exact[i], denied[i] = map[string]uint64{}, map[string]uint64{}
		}
		total := uint64(0)
		for _, q := range streams(rng, 4000) {
			units := 1 + uint64(rng.IntN(3))
			total += units
			tallies[rng.IntN(2)].Add(&q, units)
			for i := range levels {
				name := string(levels[i].key(nil, q))
				exact[i][name] += units
				if q.Denied {
					denied[i][name] += units
				}
			}
		}
		for i := range levels {
			got := sum(i, tallies)
			for name, g := range got {
				if truth := exact[i][name]; g.Units > truth || truth > g.Units+g.Error {
					t.Fatalf("round %d, level %d: %s has %d requests, told %d to %d", round, i, name, truth, g.Units, g.Units+g.Error)
				}
				if truth := denied[i][name]; g.Denied > truth || truth > g.Denied+g.Error || g.Denied > g.Units {
					t.Fatalf("round %d, level %d: %s has %d denied, told %d of %d, error %d", round, i, name, truth, g.Denied, g.Units, g.Error)
				}
			}
			for name, truth := range exact[i] {
				if _, ok := got[name]; !ok && name != "" && truth > total/slots {
					t.Fatalf("round %d, level %d: %s has %d of %d requests and is not there", round, i, name, truth, total)
				}
			}
		}
		for by := range kinds {
			shown := uint64(0)
			for _, g := range Groups(by, tallies...) {
				shown += g.Units
			}
			if most := tallies[0].Total(by) + tallies[1].Total(by); shown > most {
				t.Fatalf("round %d: %d requests by %v, and %d in groups", round, most, by, shown)
			}
		}
	}
}

// add adds n requests whose client, or path, f makes of a number.
func add(t *Tally, n int, f func(i int) string) {
	for i := range n {
		q := Request{Method: []byte("GET")}
		if text := f(i); strings.HasPrefix(text, "/") {
			q.Path = []byte(text)
		} else {
			q.Client = netip.MustParseAddr(text)
		}
		t.Add(&q, 1)
	}
}

// What is shown is the most specific group that holds together.
func TestGroups(t *testing.T) {
	t.Parallel()
	one := func(text string) func(int) string { return func(int) string { return text } }
	for name, c := range map[string]struct {
		by   By
		n    int
		who  func(i int) string
		want string
		at   int
	}{
		"one client":                          {Net, 90, one("192.0.2.7"), "192.0.2.7/32", 0},
		"one of IPv6":                         {Net, 90, one("2001:db8::7"), "2001:db8::/64", 0},
		"a network":                           {Net, 90, func(i int) string { return fmt.Sprintf("192.0.2.%d", i) }, "192.0.2.0/24", 1},
		"two clients are told apart":          {Net, 90, func(i int) string { return fmt.Sprintf("192.0.2.%d", i%2) }, "192.0.2.0/32", 0},
		"three are a network":                 {Net, 90, func(i int) string { return fmt.Sprintf("192.0.2.%d", i%3) }, "192.0.2.0/24", 1},
		"a network beside a loud client":      {Net, 300, func(i int) string { return fmt.Sprintf("192.0.2.%d", max(0, i-170)) }, "192.0.2.0/32", 0},
		"a wide one":                          {Net, 300, func(i int) string { return fmt.Sprintf("198.51.%d.%d", i%100, i/100) }, "198.51.0.0/16", 2},
		"a site of IPv6":                      {Net, 300, func(i int) string { return fmt.Sprintf("2001:db8:1:%x::1", i) }, "2001:db8:1::/48", 1},
		"a provider of IPv6":                  {Net, 300, func(i int) string { return fmt.Sprintf("2001:db8:%x::1", i) }, "2001:db8::/32", 2},
		"a path":                              {Path, 90, one("/login"), "/login", 0},
		"a folder":                            {Path, 300, func(i int) string { return fmt.Sprintf("/search/%d", i) }, "/search/*", 1},
		"the root":                            {Path, 90, one("/"), "/", 0},
		"a path as long as its folder's name": {Path, 300, func(i int) string { return "/" + strings.Repeat("x", 2*longest) + fmt.Sprint("/", i) }, "/" + strings.Repeat("x", longest-1), 0},
	} {
		tally := new(Tally)
		add(tally, c.n, c.who)
		got := Groups(c.by, tally)
		if len(got) == 0 || got[0].Name != c.want || got[0].Level != c.at {
			t.Errorf("%s: %v, want %s of level %d first", name, got[:min(3, len(got))], c.want, c.at)
		}
	}
}

// A loud client does not hide the network that it is of, nor is it counted with that.
func TestLoudClient(t *testing.T) {
	t.Parallel()
	tally := new(Tally)
	add(tally, 170, func(int) string { return "192.0.2.0" })
	add(tally, 130, func(i int) string { return fmt.Sprintf("192.0.2.%d", 1+i) })
	add(tally, 60, func(int) string { return "192.0.3.0" })
	want := []Group{{Name: "192.0.2.0/32", Units: 170}, {Name: "192.0.2.0/24", Units: 130, Level: 1}, {Name: "192.0.3.0/32", Units: 60}}
	if got := Groups(Net, tally); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := tally.Units(Net, 1, "192.0.2.0/24"); got != 300 {
		t.Errorf("all of the network are %d, want 300", got)
	}
}

// A group is shown even if it comes with a crowd that does not fit the table.
func TestGroupInACrowd(t *testing.T) {
	t.Parallel()
	tally, rng := new(Tally), rand.New(rand.NewPCG(3, 4))
	for i := range 50_000 {
		add(tally, 1, func(int) string {
			return netip.AddrFrom4([4]byte{byte(rng.IntN(200)), byte(rng.IntN(256)), 1, 1}).String()
		})
		if i%10 == 0 {
			add(tally, 1, func(int) string { return fmt.Sprintf("203.0.113.%d", rng.IntN(256)) })
		}
	}
	if got := Groups(Net, tally)[0]; got.Name != "203.0.113.0/24" || got.Units < 4500 || got.Units > 5000 {
		t.Errorf("the first is %+v, want 203.0.113.0/24 with nearly 5000", got)
	}
}

// A request without a name, address or status is in no group, and not in the total.
func TestNobody(t *testing.T) {
	t.Parallel()
	tally := new(Tally)
	tally.Add(&Request{}, 1)
	for by := range kinds {
		want := 0
		if by == Agent { // many have none, and that tells them
			want = 1
		}
		if got := Groups(by, tally); len(got) != want || tally.Total(by) != uint64(want) {
			t.Errorf("by %v: %v of %d", by, got, tally.Total(by))
		}
	}
	if got := Groups(Agent, tally); got[0].Name != "-" {
		t.Errorf("no agent is %q, want -", got[0].Name)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for i, name := range Names() {
		if by, ok := Parse(name); !ok || by != By(i) || by.String() != name {
			t.Errorf("%s: %v, %v", name, by, ok)
		}
	}
	if _, ok := Parse("nets"); ok {
		t.Error("there is no nets")
	}
}
