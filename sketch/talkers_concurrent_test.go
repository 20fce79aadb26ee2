package sketch

import (
	"bytes"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit/racetest"
)

// TestTalkerFirstHitsRace: of two first hits of a client neither is lost, and
// it gets one slot.
func TestTalkerFirstHitsRace(t *testing.T) { // not parallel: needs the cores
	const most = 1 << 16
	h := newTalkers(t, talkerWays*most)
	at := func(k int) Digest { return Digest{Pos: uint64(k)<<32/most<<16 | 1<<15, ID: 7} }
	rounds := racetest.Lockstep(most, func(_, k int) { h.hit(at(k), 3, nil) })
	for k := range rounds {
		if s := readTalker(h, k*talkerWays); s.Count != 6 || s.Weight != 6 {
			t.Fatalf("round %d: count %d, weight %d after two hits of 3", k, s.Count, s.Weight)
		}
		if s := readTalker(h, k*talkerWays+1); s.Live {
			t.Fatalf("round %d: a client has two slots", k)
		}
	}
}

// TestTalkerLosesNothing: 64 goroutines hit clients that all fit. Counts are
// exact.
func TestTalkerLosesNothing(t *testing.T) {
	t.Parallel()
	const sets, each = 8, 20_000
	h := newTalkers(t, talkerWays*sets)
	var digests []Digest
	for x := range uint64(sets) {
		for id := range uint64(talkerWays) { // ID 0 too
			digests = append(digests, Digest{Pos: x<<32/sets<<16 | 1<<15, ID: id})
		}
	}
	var exact [talkerWays * sets]atomic.Uint64
	racetest.Together(func(g int) {
		rng := rand.New(rand.NewPCG(uint64(g), 1))
		for range each {
			c, n := rng.IntN(len(digests)), 1+rng.Uint64N(9)
			exact[c].Add(n)
			h.hit(digests[c], n, nil)
		}
	})
	for c, d := range digests {
		if s := readTalker(h, h.Find(d)); s.Count != exact[c].Load() || s.Weight != s.Count || s.Gen != 1 {
			t.Errorf("client %d: %+v, want a count of %d", c, s, exact[c].Load())
		}
	}
}

// TestTalkerConcurrentTotal: 64 goroutines on one set of which everybody takes
// slots over. Weights and what was missed make up all units, short of nothing,
// and over by no more than takeovers raced; slots read meanwhile are whole.
func TestTalkerConcurrentTotal(t *testing.T) {
	t.Parallel()
	const clients, each = 24, 5_000
	h := newTalkers(t, 1)
	names := make([][]byte, clients)
	for c := range names {
		names[c] = bytes.Repeat([]byte{byte(c + 1)}, TalkerNameBytes)
	}
	var total atomic.Uint64
	racetest.Together(func(g int) {
		rng := rand.New(rand.NewPCG(uint64(g), 2))
		gens := [talkerWays]uint64{}
		for i := range each {
			c := rng.IntN(clients)
			d := Digest{Pos: uint64(c + 1), ID: uint64(c + 1)}
			total.Add(1)
			h.hit(d, 1, names[c])
			h.Shed(d, 64)
			slot := i % talkerWays
			s := readTalker(h, slot)
			if s.Gen < gens[slot] {
				t.Errorf("slot %d: generation %d after %d", slot, s.Gen, gens[slot])
				return
			}
			gens[slot] = s.Gen
			if s.Live && !bytes.Equal(s.Name[:s.NameLen], names[s.Pos-1]) {
				t.Errorf("slot %d: client %d is named %v", slot, s.Pos-1, s.Name)
				return
			}
		}
	})
	sum, held := h.Floor(), map[uint64]bool{}
	for slot := range talkerWays {
		sum += readTalker(h, slot).Weight
		held[h.sets[0].slots[slot].id.Load()] = true
	}
	if n := total.Load(); sum < n || sum > n+n/100 {
		t.Errorf("weights and missed are %d of %d units", sum, n)
	}
	if len(held) != talkerWays {
		t.Errorf("%d clients have %d slots", len(held), talkerWays)
	}
}

// TestTalkerTurnsUnderLoad: epochs turn while 64 goroutines send. A client that
// is hit in every epoch keeps its slot and all its units.
func TestTalkerTurnsUnderLoad(t *testing.T) {
	t.Parallel()
	const each = 20_000
	h := newTalkers(t, 4)
	steady := Digest{ID: 99}
	h.hit(steady, 1, nil)
	var sent atomic.Uint64
	sent.Store(1)
	racetest.Together(func(g int) {
		rng := rand.New(rand.NewPCG(uint64(g), 3))
		for i := range each {
			if i%4 > 0 {
				sent.Add(1)
				h.hit(steady, 1, nil)
			} else if g == 0 && i%100 == 0 {
				h.Turn() // steady was hit since the last turn
			} else {
				h.hit(Digest{ID: 1 + rng.Uint64N(3)}, 1, nil)
			}
		}
	})
	if s := readTalker(h, h.Find(steady)); s.Gen != 1 || s.Count != sent.Load() {
		t.Errorf("count %d in generation %d, want %d in 1", s.Count, s.Gen, sent.Load())
	}
}
