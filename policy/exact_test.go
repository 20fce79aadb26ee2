package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
	"pgregory.net/rapid"
)

type digest struct{ pos, id uint64 }

// Whatever digests keys have, each is found with its limit and others are not: also if all
// have one home, or one ID.
func TestExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		few := rapid.SampledFrom([]uint64{1, 3, 1 << 63}).Draw(t, "few")
		half := func(name string) uint64 {
			n := rapid.Uint64Range(0, 40).Draw(t, name)
			return n % few * 0x9e3779b97f4a7c15
		}
		n := rapid.IntRange(0, 60).Draw(t, "keys")
		x, want := newExact(n), map[digest]int{}
		for i := range n {
			d := digest{pos: half("pos"), id: half("id") + rapid.Uint64Range(0, 9).Draw(t, "more")}
			if _, twice := want[d]; twice || sharesID(want, d) {
				continue
			}
			x.add(d.pos, d.id, i)
			want[d] = i
		}
		for d, limit := range want {
			if got := x.find(d.pos, d.id); got != limit || !x.may(d.id) {
				t.Fatalf("%x: %d, %t, want %d", d, got, x.may(d.id), limit)
			}
		}
		for range 20 {
			d := digest{pos: half("other pos"), id: rapid.Uint64Range(100, 200).Draw(t, "other id")}
			if _, is := want[d]; !is && x.find(d.pos, d.id) >= 0 && !sharesID(want, d) {
				t.Fatalf("%x was never added", d)
			}
		}
	})
}

// sharesID reports whether another digest has the ID of d: of two in one line either may
// be found, so that tests have none.
func sharesID(all map[digest]int, d digest) bool {
	for o := range all {
		if o.id == d.id {
			return true
		}
	}
	return false
}

// Most keys are in their own line, few others pass the sieve, and those read hardly more
// than one line.
func TestExactIsNear(t *testing.T) {
	t.Parallel()
	const n = 20_000
	rng := rand.New(rand.NewPCG(1, 2))
	some := func() digest { return digest{pos: rng.Uint64(), id: rng.Uint64()} }
	x := newExact(n)
	all := make([]digest, n)
	for i := range all {
		all[i] = some()
		x.add(all[i].pos, all[i].id, i%1000)
	}
	away := 0
	for i, d := range all {
		if x.find(d.pos, d.id) != i%1000 {
			t.Fatalf("key %d is lost", i)
		}
		at := x.lines[x.home(d.pos)]
		if !slices.Contains(at.ids[:], d.id) {
			away++
		}
	}
	passed, long := 0, 0
	for range n {
		d := some()
		if x.may(d.id) {
			passed++
		}
		if x.lines[x.home(d.pos)].passed {
			long++
		}
	}
	if away > n/8 || passed > n/100 || long > n/4 {
		t.Errorf("of %d keys %d are not in their line; of as many others %d pass the sieve and %d read more than a line", n, away, passed, long)
	}
}

// Overrides by several parts, in the settings and live, are those of the clients with
// these parts and of no other: a map by the parts says who has which.
func TestOverridesOfPartsByOracle(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := Settings{Rules: []RuleSpec{{Limit: ruleOf("a", 1), Key: key(byMethod, byHeader)}}}
		part := func(name string) string { return rapid.SampledFrom([]string{"a", "b", "ab", "ba", "aa"}).Draw(t, name) }
		file, live := map[[2]string]uint64{}, map[[2]string]uint64{}
		for i := range rapid.IntRange(0, 12).Draw(t, "in the file") {
			k := [2]string{part("method"), part("header")}
			if file[k] == 0 {
				file[k] = uint64(i + 2)
				s.Rules[0].Overrides = append(s.Rules[0].Overrides, Override{Key: k[:], Burst: file[k]})
			}
		}
		lim, err := fastlimit.New(fastlimit.Config{Rules: s.Limits()})
		if err != nil {
			t.Fatal(err)
		}
		e, err := New(lim, s)
		if err != nil {
			t.Fatal(err)
		}
		var all []LiveOverride
		for i := range rapid.IntRange(0, 6).Draw(t, "live") {
			k := [2]string{part("method"), part("header")}
			if live[k] != 0 {
				continue
			}
			live[k] = uint64(i + 100)
			tier, err := (*engine.Rule)(lim.Rules()[0]).NewTier(fastlimit.Tier{Burst: live[k], Clients: 1})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, LiveOverride{Key: k[:], Tier: (*fastlimit.Rule)(tier)})
		}
		if e, err = e.WithLive(&s, all); err != nil {
			t.Fatal(err)
		}
		for _, method := range []string{"a", "b", "ab", "ba", "aa"} {
			for _, header := range []string{"a", "b", "ab", "ba", "aa"} {
				k, want := [2]string{method, header}, uint64(1)
				if b := file[k]; b != 0 {
					want = b
				}
				if b := live[k]; b != 0 {
					want = b
				}
				r := Request{Method: []byte(method), Fields: &constFields{header: instances(header)}}
				if got := e.Applying(&r, new(Scratch))[0].Rule.Config().Burst; got != want {
					t.Fatalf("%q: burst %d, want %d", k, got, want)
				}
			}
		}
	})
}

// A limiter that was made from other settings is refused, not asked for tiers it lacks.
func TestOverridesOfOtherSettings(t *testing.T) {
	t.Parallel()
	s := Settings{Rules: []RuleSpec{{Limit: ruleOf("a", 2), Key: key(byIP)}}}
	lim, err := fastlimit.New(fastlimit.Config{Rules: s.Limits()})
	if err != nil {
		t.Fatal(err)
	}
	s.Rules[0].Overrides = []Override{{Key: []string{"192.0.2.1"}, Burst: 3}}
	if _, err := New(lim, s); err == nil || fmt.Sprint(err) != `fastlimit/policy: rule "a": the limiter has 0 tiers for it, not 1: make both from the same settings` {
		t.Error(err)
	}
}

// What no request can have in its key is refused; what one can have is not.
func TestOverridesThatNobodyHas(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a b": "", "a\tb": "", "é": "", "\"quoted\"": "",
		" a": "blanks", "a ": "blanks", "\ta": "blanks", " ": "blanks", "a\x00b": "control character", "a\r\nb": "control character", "a\x7f": "control character",
	} {
		for _, part := range []KeyPart{byHeader, {Kind: KeyCookie, Name: "sid"}, byMethod} {
			if part == byMethod && (text == "a b" || text == "a\tb") {
				want = "blanks"
			}
			r := RuleSpec{Limit: ruleOf("a", 2), Key: key(part)}
			_, _, err := r.CheckOverride(&Override{Key: []string{text}, Unlimited: true})
			if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "write it as requests have it")) {
				t.Errorf("%v %q: %v, want %q", part, text, err, want)
			}
		}
	}
	r := RuleSpec{Limit: ruleOf("a", 2), Key: key(KeyPart{Kind: KeyCookie, Name: "sid"})}
	if _, _, err := r.CheckOverride(&Override{Key: []string{"a;b"}, Unlimited: true}); err == nil {
		t.Error("a cookie with a semicolon is accepted")
	}
}
