package bucket

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/fastlimit/fastlimit/sketch"
)

// model is the table as a map, which holds any number of buckets. What the
// table gives up is taken out of it, once it has been shown to be a bucket
// that may be given up.
type model struct {
	tb        *Table
	tat       map[sketch.Digest]uint64
	evictions uint64
	forgiven  uint64
}

func newModel(tb *Table) *model { return &model{tb: tb, tat: map[sketch.Digest]uint64{}} }

// set stores the TAT of d, and has the table give up at most one bucket for
// it: the lowest of those in the candidate sets of d.
func (m *model) set(t *testing.T, d sketch.Digest, tat, now uint64) {
	t.Helper()
	m.tat[d] = tat
	if m.tb.Evictions() == m.evictions {
		return
	}
	m.evictions++
	var lost []sketch.Digest
	for other, want := range m.tat {
		if want > now && m.tb.Lookup(other) != want {
			lost = append(lost, other)
		}
	}
	if len(lost) != 1 || lost[0] == d || m.tb.Evictions() != m.evictions {
		t.Fatalf("%v lost when room was made for %v, %d evictions counted", lost, d, m.tb.Evictions()-m.evictions+1)
	}
	level := Level(m.tat[lost[0]], now)
	x := m.tb.index(d)
	for _, s := range []uint64{x, m.tb.other(x, d.ID)} {
		for _, e := range m.tb.sets[s] {
			if e.tag^e.tat != d.ID && Level(e.tat, now) < level {
				t.Fatalf("level %d was given up although there was one of %d", level, Level(e.tat, now))
			}
		}
	}
	unit := m.tb.shape.Unit()
	m.forgiven += (level + unit - 1) / unit
	delete(m.tat, lost[0])
}

// check holds the table to its invariants, whatever it holds, given its
// clients.
func check(t *testing.T, tb *Table, ds []sketch.Digest, now uint64) {
	t.Helper()
	home := map[uint64]uint64{}
	for _, d := range ds {
		home[d.ID] = tb.index(d)
	}
	away, seen := make([]uint32, len(tb.sets)), map[uint64]bool{}
	for x := range uint64(len(tb.sets)) {
		for i, e := range tb.sets[x] {
			id, guest := e.tag^e.tat, tb.guestLocked(x, i)
			if e.tat == 0 {
				if guest {
					t.Fatalf("set %d: the free entry %d is a guest", x, i)
				}
				continue
			}
			if seen[id] {
				t.Fatalf("ID %#x is there twice", id)
			}
			seen[id] = true
			if at, other := home[id], tb.other(home[id], id); x != at && x != other || guest != (x != at) {
				t.Fatalf("ID %#x of home %d and other set %d is in set %d, a guest: %v", id, at, other, x, guest)
			}
			if guest {
				away[home[id]]++
			}
			if e.tat > now && marksOf(tb, x)&inUse == 0 {
				t.Fatalf("set %d holds an undrained bucket and is not marked", x)
			}
		}
	}
	for x, n := range away {
		if got := tb.awayOf(uint64(x)); got != n {
			t.Fatalf("set %d counts %d buckets elsewhere, there are %d", x, got, n)
		}
		if n > 0 && marksOf(tb, uint64(x))&spilled == 0 {
			t.Fatalf("set %d has %d buckets elsewhere and marks %b", x, n, marksOf(tb, uint64(x)))
		}
	}
}

func marksOf(tb *Table, x uint64) uint64 {
	return tb.marks[x/marksWord] >> (x * markBits & 63) & (inUse | spilled)
}

// TestTableModel runs random operations against the model: many clients in few
// sets, so that buckets are moved and given up; sets of their own; hashes that
// send everybody to one pair of sets, or to the same home.
func TestTableModel(t *testing.T) {
	t.Parallel()
	oneHome := func(*rand.Rand) sketch.Digest { return sketch.Digest{Pos: 0xabcdef0123456789} }
	spread := func(rng *rand.Rand) sketch.Digest { return sketch.Digest{Pos: rng.Uint64(), ID: rng.Uint64()} }
	address := func(rng *rand.Rand) sketch.Digest { v := rng.Uint64(); return sketch.Digest{Pos: v, ID: v} }
	for _, tt := range []struct {
		name          string
		sets, clients int
		pause         float64 // largest pause between operations, in T
		hash          func(*rand.Rand) sketch.Digest
		onePair       bool
	}{
		{"roomy", 512, 100, 0.3, spread, false},
		{"crowded", 8, 100, 0.1, spread, false},
		{"addresses, crowded", 8, 60, 0.1, address, false},
		{"few, often drained", 4, 20, 4, spread, false},
		{"as many as it holds", 64, 256, 0.02, spread, false},
		{"one set", 1, 12, 0.3, spread, false},
		{"two sets", 2, 20, 0.3, spread, false},
		{"three sets", 3, 30, 0.3, spread, false},
		{"one home for all of many", 64, 90, 0.1, oneHome, false},
		{"one pair for all of many", 64, 14, 0.2, oneHome, true},
	} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("%s/%d", tt.name, seed), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(seed, 77))
				tb := newTable(t, tt.sets)
				ds := clients(rng, tt.clients, func() uint64 { return tt.hash(rng).Pos })
				for i := range ds {
					if d := tt.hash(rng); d.ID != 0 && i > 3 {
						ds[i] = d
					}
					for tt.onePair && tb.other(tb.index(ds[i]), ds[i].ID) != 1 {
						ds[i].ID = rng.Uint64()
					}
				}
				runTableModel(t, rng, tb, ds, tt.pause)
			})
		}
	}
}

func runTableModel(t *testing.T, rng *rand.Rand, tb *Table, ds []sketch.Digest, pause float64) {
	m := newModel(tb)
	now := uint64(1 << 50)
	for step := range 40_000 {
		now += uint64(rng.Float64() * pause * float64(tb.shape.Unit()))
		d := ds[rng.IntN(len(ds))]
		held := m.tat[d] // 0 if absent
		cost := tb.shape.Cost(rng.Uint64N(4))
		switch op := rng.IntN(20); op {
		case 0:
			tb.Reset(d)
			delete(m.tat, d)
		case 1, 2:
			got := tb.Refund(d, now, cost)
			if want := Sub(held, now, cost); Level(got, now) != Level(want, now) {
				t.Fatalf("step %d: Refund = %d, want %d", step, got, want)
			}
			if held > now {
				m.tat[d] = Sub(held, now, cost)
			}
		case 3:
			parts := 1 + rng.IntN(4)
			tb.Sweep(now, rng.IntN(parts), parts)
		case 4:
			tat := now + rng.Uint64N(tb.shape.Limit()) - 100
			tb.Settle(d, now, cost, tat)
			if cost > 0 {
				tat = max(tat, Add(held, now, cost))
			}
			if tat > max(now, held) {
				m.set(t, d, tat, now)
			}
		default:
			cost += rng.Uint64N(tb.shape.Unit() / 10)
			tat, ok := tb.Take(d, now, cost)
			if want := tb.shape.Fits(held, now, cost); ok != want {
				t.Fatalf("step %d: Take = %v with level %d and cost %d", step, ok, Level(held, now), cost)
			}
			if ok {
				held = Add(held, now, cost)
				m.set(t, d, held, now)
			}
			if Level(tat, now) != Level(held, now) {
				t.Fatalf("step %d: level %d after Take, want %d", step, Level(tat, now), Level(held, now))
			}
		}
		for _, d := range []sketch.Digest{d, ds[rng.IntN(len(ds))]} {
			if got, want := Level(tb.Lookup(d), now), Level(m.tat[d], now); got != want {
				t.Fatalf("step %d: ID %#x has level %d, want %d", step, d.ID, got, want)
			}
		}
		if step%64 == 0 {
			check(t, tb, ds, now)
		}
	}
	finishTableModel(t, m, ds, now)
}

// finishTableModel compares the totals, and then lets all buckets drain:
// nothing is left.
func finishTableModel(t *testing.T, m *model, ds []sketch.Digest, now uint64) {
	t.Helper()
	tb := m.tb
	if got := tb.Evictions(); got != m.evictions {
		t.Errorf("%d evictions, want %d", got, m.evictions)
	}
	if got := tb.Forgiven(); got != m.forgiven {
		t.Errorf("%d units forgiven, want %d", got, m.forgiven)
	}
	live := 0
	for _, tat := range m.tat {
		if tat > now {
			live++
		}
	}
	if got, want := tb.Live(now, len(tb.sets)), float64(live)/float64(tb.Buckets()); got != want {
		t.Errorf("Live = %v, want %v", got, want)
	}
	now += 2 * tb.shape.Limit()
	for range 2 {
		tb.Sweep(now, 0, 1)
		check(t, tb, ds, now)
	}
	for x := range uint64(len(tb.sets)) {
		if marks, away := marksOf(tb, x), tb.awayOf(x); marks != 0 || away != 0 {
			t.Fatalf("set %d: marks %b and %d buckets elsewhere after all have drained", x, marks, away)
		}
	}
}
