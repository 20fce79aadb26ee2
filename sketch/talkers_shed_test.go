package sketch

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// flood has n denials of a client, one unit each, and returns how many were
// noted.
func (h *TopTalkers) flood(d Digest, serial *uint64, n int) (notes int) {
	for range n {
		if *serial++; h.Drawn(*serial, 1) {
			h.Shed(d, 1)
			notes++
		}
	}
	return notes
}

// The grain follows the load: all is noted while there is little, and a flood of
// any size costs a few notes, even if nobody ever calls Pace.
func TestShedGrain(t *testing.T) {
	t.Parallel()
	h := newTalkers(t, 4)
	d, serial := Digest{ID: 1}, uint64(0)
	h.hit(d, 2, nil)
	shed := func() uint64 { return readTalker(h, h.Find(d)).Shed }

	for range 20 { // 10,000 denials a second
		if notes := h.flood(d, &serial, 1000); notes != 1000 || h.Grain() != 1 {
			t.Fatalf("%d of 1000 noted, grain %d", notes, h.Grain())
		}
		h.Pace(100 * time.Millisecond)
	}
	if shed() != 20_000 {
		t.Errorf("shed %d of 20,000", shed())
	}
	before, most := shed(), 0
	for range 10 { // of a million in each tick
		most = max(most, h.flood(d, &serial, 1<<20))
		h.Pace(100 * time.Millisecond)
	}
	if most > 9*shedBudget {
		t.Errorf("%d notes in a tick of the flood", most)
	}
	if g := h.Grain(); g != 1024 { // 1638 notes a tick
		t.Errorf("grain %d", g)
	}
	if got := shed() - before; math.Abs(float64(got)-10<<20) > 5<<20/10 {
		t.Errorf("%d denials were told as %d", 10<<20, got)
	}
	h.Pace(100 * time.Millisecond) // a silent tick
	if h.Grain() != 1 {
		t.Errorf("grain %d after silence", h.Grain())
	}
	notes := 0
	for range 40 {
		notes += h.flood(d, &serial, 1<<18)
	}
	if notes > 16*shedBudget {
		t.Errorf("%d notes of 10^7 denials without Pace", notes)
	}
}

// Dear requests are noted more often, for less: each unit counts the same.
func TestShedCosts(t *testing.T) {
	t.Parallel()
	h := newTalkers(t, 4)
	d := Digest{ID: 1}
	h.hit(d, 2, nil)
	h.chance.grain.mask.Store(63)
	serial, sum := uint64(0), uint64(0)
	for range 600 {
		for _, n := range []uint64{1, 7, 63, 64, 100, 5000} {
			serial++
			drawn := h.Drawn(serial, n)
			if n >= 64 && !drawn {
				t.Fatalf("%d units by chance of %d are not noted", n, h.Grain())
			}
			if drawn {
				h.Shed(d, n)
			}
			sum += n
		}
	}
	if got := readTalker(h, h.Find(d)).Shed; math.Abs(float64(got)-float64(sum)) > 6*math.Sqrt(600*525) {
		t.Errorf("%d units are told as %d", sum, got)
	}
	before := readTalker(h, h.Find(d)).Shed
	h.Shed(d, math.MaxUint64)
	if got := readTalker(h, h.Find(d)).Shed - before; got != maxGrain {
		t.Errorf("a request of 2^64-1 units counts %d", got)
	}
}

// What no slot tells of a client, Missed and Dropped do: of one without a slot,
// one whose slot is not told yet, one that lost it in this epoch or of the last.
func TestMissed(t *testing.T) {
	t.Parallel()
	h := newTalkers(t, 4)
	missed := func(want, pending uint64) {
		t.Helper()
		if u, p := h.Missed(0); u != want || p != pending {
			t.Errorf("missed %d and %d, want %d and %d", u, p, want, pending)
		}
	}
	for id := range uint64(4) {
		h.hit(Digest{ID: 1 + id}, 100+id, nil)
	}
	missed(0, 0)
	h.Shed(Digest{ID: 4}, 1000) // is sheltered from here on
	h.Shed(Digest{ID: 9}, 5)
	h.hit(Digest{ID: 9}, 60, nil)
	missed(65, 0)
	h.Shed(Digest{ID: 1}, 7)
	h.Shed(Digest{ID: 4}, 1000)
	h.Turn()
	missed(65, 0)
	if n := h.Dropped(); n != 0 {
		t.Errorf("dropped %d, nobody has lost a slot", n)
	}
	h.Shed(Digest{ID: 1}, 8)
	h.hit(Digest{ID: 20}, 1, nil) // takes the slot of 1: 107 units of the last epoch, 8 of this
	missed(65+8, 1)
	if n := h.Dropped(); n != 107 {
		t.Errorf("dropped %d, want 107", n)
	}
	if n := h.Dropped(); n != 0 {
		t.Errorf("dropped %d once more", n)
	}
	h.Shed(Digest{ID: 20}, 3) // is not told yet
	h.hit(Digest{ID: 20}, 1, nil)
	missed(65+8+3, 0)
	h.Shed(Digest{ID: 20}, 4)
	if s := readTalker(h, h.Find(Digest{ID: 20})); s.Shed != 4 || s.Count != 2 {
		t.Errorf("%+v, want 4 shed and a count of 2", s)
	}
	h.Turn()
	h.Shed(Digest{ID: 20}, 6)
	h.Turn() // it was denied only, and keeps its slot
	if s := readTalker(h, h.Find(Digest{ID: 20})); s.Shed != 10 || s.Weight != 0 {
		t.Errorf("%+v, want 10 shed", s)
	}
	missed(65+8+3, 0)
	h.Dropped() // of others
	h.Turn()    // it was silent, and loses its slot
	if n := h.Dropped(); h.Find(Digest{ID: 20}) >= 0 || n != 6 {
		t.Errorf("in slot %d, dropped %d, want 6", h.Find(Digest{ID: 20}), n)
	}
}

// TestShelter: a client that is banned is denied only, which counts for no weight. Its slot
// stays, whoever comes; one in each set.
func TestShelter(t *testing.T) {
	t.Parallel()
	h := newTalkers(t, 4)
	h.hit(Digest{ID: 1}, 2, nil)
	h.hit(Digest{ID: 2}, 2, nil)
	next := uint64(10)
	for epoch := range 4 {
		for i := range uint64(200) {
			h.Shed(Digest{ID: 1}, 5)
			h.Shed(Digest{ID: 2}, 4) // less
			next++
			h.hit(Digest{ID: next}, 3+i%3, nil)
			h.hit(Digest{ID: 3}, 9, nil)
		}
		slot := h.Find(Digest{ID: 1})
		if slot < 0 {
			t.Fatalf("epoch %d: whoever is denied most has lost its slot", epoch)
		}
		if s := readTalker(h, slot); s.Shed != uint64(1000*(epoch+1)) {
			t.Errorf("epoch %d: %+v", epoch, s)
		}
		if h.Find(Digest{ID: 2}) >= 0 || h.Find(Digest{ID: 3}) < 0 {
			t.Errorf("epoch %d: the second has slot %d, want none, and whoever sends most %d", epoch, h.Find(Digest{ID: 2}), h.Find(Digest{ID: 3}))
		}
		h.Turn()
	}
	h.Turn()
	if h.Find(Digest{ID: 1}) >= 0 || h.sets[0].shelter != 0 {
		t.Errorf("it was silent, and has slot %d, sheltered %b", h.Find(Digest{ID: 1}), h.sets[0].shelter)
	}
}

// TestShelterAgainstExactCounts: the bounds of the package comment hold with it, and of
// what a set missed with one slot less.
func TestShelterAgainstExactCounts(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		h := newTalkers(t, 8)
		m := newTalkerModel(h, talkerClients(h, rng, 30, func(rng *rand.Rand, i int) Digest { return Digest{Pos: rng.Uint64(), ID: uint64(i)} }))
		for i := range 4000 {
			c := int(rng.ExpFloat64()*6) % len(m.clients)
			if rng.IntN(3) == 0 {
				h.Shed(m.clients[c], 1+rng.Uint64N(50))
				if slot, live := m.place(c); live {
					m.active[slot] = true
				}
			} else if err := m.hit(c, 1+rng.Uint64N(3)); err != nil {
				t.Fatalf("seed %d, hit %d: %v", seed, i, err)
			}
			if rng.IntN(500) == 0 {
				if err := m.turn(); err != nil {
					t.Fatalf("seed %d, turn after hit %d: %v", seed, i, err)
				}
			}
		}
	}
}
