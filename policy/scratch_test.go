package policy

import (
	"bytes"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/fastlimit/fastlimit/internal/engine"
)

// What a scratch finds canonical as it stands is what the long way makes of it.
func TestScratchAgreesWithTheLongWay(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	word := func(alphabet string) []byte {
		b := make([]byte, rng.IntN(12))
		for i := range b {
			b[i] = alphabet[rng.IntN(len(alphabet))]
		}
		return b
	}
	var s Scratch
	inPlace, moved := 0, 0
	for range 300_000 {
		target := append([]byte("/"), word("ab/.?#%2eA\x00~")...)
		if rng.IntN(8) == 0 {
			target = target[1:]
		}
		before := bytes.Clone(target)
		var r Request
		ok := s.readPath(target, &r)
		got := r.Path
		want, wantOK := AppendPath(nil, target)
		if !ok && wantOK && habits(target) > maxHabits {
			continue
		}
		if ok != wantOK || ok && !bytes.Equal(got, want) {
			t.Fatalf("Path(%q) = %q, %v, want %q, %v", target, got, ok, want, wantOK)
		}
		if len(got) > 0 && &got[0] == &target[0] {
			inPlace++
		} else {
			moved++
		}
		host := word("aZ0.-_~:[]!")
		gotHost, ok := s.canonicalHost(host)
		wantHost, wantOK := AppendHost(nil, host)
		if ok != wantOK || ok && !bytes.Equal(gotHost, wantHost) {
			t.Fatalf("Host(%q) = %q, %v, want %q, %v", host, gotHost, ok, wantHost, wantOK)
		}
		if !bytes.Equal(before, target) {
			t.Fatalf("the target %q became %q", before, target)
		}
	}
	if inPlace < 10_000 || moved < 10_000 {
		t.Errorf("%d paths in place, %d not: one way is hardly tried", inPlace, moved)
	}
}

// habits is how many habits make a difference to a target, alone or together.
func habits(target []byte) int {
	all := reading(0)
	for as := range 256 {
		_, matter, _ := appendReading(nil, target, reading(as))
		all |= matter
	}
	return bits.OnesCount8(uint8(all))
}

// More rules than a scratch has room for within itself.
func TestScratchGrows(t *testing.T) {
	t.Parallel()
	var set Settings
	for i := range 2 * len(Scratch{}.few) {
		set.Rules = append(set.Rules, benchRule(string(rune('a'+i)), key(byIP), Match{}))
	}
	e := mustEngine(t, set)
	r := liveRequest("192.0.2.1")
	var s Scratch
	for range 3 {
		e.Decide(t.Context(), r, &s)
		applied := s.Applied()
		if len(applied) != len(set.Rules) {
			t.Fatalf("%d rules applied, want %d", len(applied), len(set.Rules))
		}
		for i, a := range applied {
			if (*engine.Rule)(a.Rule).Index() != i || a.Rule.Name() != set.Rules[i].Limit.Name {
				t.Errorf("place %d: rule %d, %s", i, (*engine.Rule)(a.Rule).Index(), a.Rule.Name())
			}
		}
	}
}

// What a decision does not use is not kept from the one before: not the rules of a
// limiter that a reload has replaced, nor the bytes of an older request.
func TestScratchKeepsNothingOld(t *testing.T) {
	t.Parallel()
	rules := func(n int) *Engine {
		set := Settings{Deny: prefixes("198.51.100.0/24")}
		for i := range n {
			set.Rules = append(set.Rules, benchRule(string(rune('a'+i)), key(byIP, byPath), Match{}))
		}
		return mustEngine(t, set)
	}
	var s Scratch
	r := liveRequest("192.0.2.1")
	for _, n := range []int{4, 9, 3, 1, 4, 2} {
		for _, client := range []string{"192.0.2.1", "198.51.100.1"} { // the latter is on a list
			r.Client = netip.MustParseAddr(client)
			rules(n).Decide(t.Context(), r, &s)
			charges, parts := s.charges[len(s.charges):cap(s.charges)], s.parts[len(s.parts):cap(s.parts)]
			if cap(s.charges) > len(s.few) {
				charges = append(slices.Clip(charges), s.few[:]...)
			}
			for _, c := range charges {
				if c.Rule != nil {
					t.Fatalf("%d rules for %s: rule %q of another decision is kept", n, client, c.Rule.Name())
				}
			}
			for _, p := range parts {
				if p != nil {
					t.Fatalf("%d rules for %s: key part %q of another decision is kept", n, client, p)
				}
			}
		}
	}
}
