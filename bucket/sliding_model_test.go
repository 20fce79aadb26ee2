package bucket

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// history is one client of a sliding window or a log as the model has it: the µs of
// each unit that was admitted, and until when a store has said that none fits.
type history struct {
	units []uint64
	full  uint64
	since uint64 // what was before may be forgotten
}

// slidingModel is a table of sliding windows or logs as a map without bounds.
type slidingModel struct {
	tb        *Table
	clients   map[sketch.Digest]*history
	evictions uint64
	forgiven  uint64
}

func (m *slidingModel) ticks(now uint64) uint64 {
	if m.tb.shape.Logged() {
		return now
	}
	return m.tb.shape.WindowTicks(time.Duration(now) * time.Microsecond)
}

// level is the level of a client at now in units, by fractions that are never rounded
// but up at the end.
func (m *slidingModel) level(h *history, now uint64) uint64 {
	shape, n := &m.tb.shape, uint64(0)
	if shape.Logged() {
		if h.full > now {
			return shape.limit
		}
		for _, at := range h.units {
			if at+shape.period > now {
				n++
			}
		}
		return n
	}
	window, previous := now/shape.period, uint64(0)
	for _, at := range h.units {
		switch window - at/shape.period {
		case 0:
			n++
		case 1:
			previous++
		}
	}
	step := shape.period / SlidingSteps
	weight := previous * (SlidingSteps - now%shape.period/step)
	return n + (weight+SlidingSteps-1)/SlidingSteps
}

// live reports whether the table must still know of the client.
func (m *slidingModel) live(h *history, now uint64) bool {
	if m.tb.shape.Logged() {
		return m.level(h, now) > 0
	}
	return slices.ContainsFunc(h.units, func(at uint64) bool { return now/m.tb.shape.period-at/m.tb.shape.period <= 1 })
}

// got is the level by the table.
func (m *slidingModel) got(d sketch.Digest, now uint64) uint64 {
	if m.tb.shape.Logged() {
		free, _, _ := m.tb.Log(d, now, 1)
		return m.tb.shape.limit - free
	}
	return m.tb.shape.Level(m.tb.Lookup(d), m.ticks(now))
}

// evicted takes out of the model whom the table gave up for d: at most one, the lowest
// of those that stood where d may.
func (m *slidingModel) evicted(t *testing.T, d sketch.Digest, now uint64) {
	t.Helper()
	if m.tb.Evictions() == m.evictions {
		return
	}
	m.evictions++
	var lost []sketch.Digest
	for other, h := range m.clients {
		if other != d && m.level(h, now) > 0 && m.got(other, now) != m.level(h, now) {
			lost = append(lost, other)
		}
	}
	if len(lost) != 1 || m.tb.Evictions() != m.evictions {
		t.Fatalf("%v lost, %d evictions more", lost, m.tb.Evictions()-m.evictions+1)
	}
	units := m.clients[lost[0]]
	level := m.level(&history{units: units.units}, now)
	x := m.tb.index(d)
	for _, s := range []uint64{x, m.tb.other(x, d.ID)} {
		for i, e := range m.tb.sets[s] {
			if got := m.tb.levelLocked(s, i, m.ticks(now)); e.tag^e.tat != d.ID && got < level {
				t.Fatalf("level %d was given up although there was one of %d", level, got)
			}
		}
	}
	m.forgiven += level
	delete(m.clients, lost[0])
}

// TestSlidingTableModel runs random operations on few clients in fewer sets, so that
// buckets are moved with their logs and given up, against the model.
func TestSlidingTableModel(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		sets, clients int
		pause         float64 // largest pause between operations, in periods
	}{
		{"roomy", 512, 100, 0.01},
		{"crowded", 8, 100, 0.002},
		{"few, often drained", 4, 20, 0.6},
		{"as many as it holds", 16, 64, 0.001},
		{"one set", 1, 12, 0.05},
		{"three sets", 3, 30, 0.01},
	} {
		for seed := range uint64(4) {
			if testing.Short() && seed > 1 {
				break
			}
			for _, make := range []func(uint64, time.Duration) (Shape, error){NewSlidingWindow, NewSlidingLog} {
				shape, err := make(1+seed*4, time.Duration(1+seed)*time.Second)
				if err != nil {
					t.Fatal(err)
				}
				t.Run(fmt.Sprintf("%v/%s/%d", shape.Algorithm(), tt.name, seed), func(t *testing.T) {
					t.Parallel()
					tb, err := NewTable(shape, tt.sets)
					if err != nil {
						t.Fatal(err)
					}
					rng := rand.New(rand.NewPCG(seed, 78))
					ds := clients(rng, tt.clients, rng.Uint64)
					runSlidingModel(t, rng, &slidingModel{tb: tb, clients: map[sketch.Digest]*history{}}, ds, tt.pause)
				})
			}
		}
	}
}

func runSlidingModel(t *testing.T, rng *rand.Rand, m *slidingModel, ds []sketch.Digest, pause float64) {
	tb, shape := m.tb, &m.tb.shape
	now, steps := uint64(1_763_596_800_000_000), 20_000
	if testing.Short() {
		steps = 4000
	}
	for step := range steps {
		now += uint64(rng.Float64() * pause * float64(shape.period))
		d, n := ds[rng.IntN(len(ds))], rng.Uint64N(shape.limit+2)
		if rng.IntN(3) > 0 {
			n = 1
		}
		h := m.clients[d]
		if h == nil || !m.live(h, now) {
			h = &history{since: now}
			m.clients[d] = h
		}
		switch op := rng.IntN(20); op {
		case 0:
			tb.Reset(d)
			delete(m.clients, d)
		case 1, 2:
			tb.Refund(d, m.ticks(now), n)
			h.units = h.units[:len(h.units)-int(min(n, uint64(len(h.units))))]
			h.full = 0
		case 3:
			parts := 1 + rng.IntN(4)
			tb.Sweep(m.ticks(now), rng.IntN(parts), parts)
		case 4:
			m.settle(t, rng, d, h, now, n)
		default:
			read := now // or, of a log that somebody else has charged since, earlier
			if shape.Logged() && m.live(h, now) && rng.IntN(4) == 0 {
				read = max(read-rng.Uint64N(shape.period/8), h.since)
			}
			fits := m.level(h, read)+n <= shape.limit
			if _, ok := tb.Take(d, m.ticks(read), n); ok != fits {
				t.Fatalf("step %d: take of %d on %d of %d: %t", step, n, m.level(h, read), shape.limit, ok)
			}
			if fits {
				h.add(read, n, shape)
			}
			m.evicted(t, d, now)
		}
		for _, d := range []sketch.Digest{d, ds[rng.IntN(len(ds))]} {
			h := m.clients[d]
			if h == nil {
				h = &history{}
			}
			if got := m.got(d, now); got != m.level(h, now) {
				t.Fatalf("step %d: level %d, want %d", step, got, m.level(h, now))
			}
			m.checkWaits(t, d, h, now, 1+rng.Uint64N(shape.limit))
		}
	}
	if tb.Forgiven() != m.forgiven {
		t.Errorf("%d units forgiven, want %d", tb.Forgiven(), m.forgiven)
	}
	now += 3 * shape.period
	for range 2 {
		tb.Sweep(m.ticks(now), 0, 1)
	}
	if live := tb.Live(m.ticks(now), len(tb.sets)); live != 0 {
		t.Errorf("%v live after all have drained", live)
	}
	for i, w := range tb.marks {
		if w != 0 {
			t.Fatalf("marks %d are %x", i, w)
		}
	}
}

// add notes units. A log keeps no more than the latest that fit, in order.
func (h *history) add(now, n uint64, shape *Shape) {
	if shape.Logged() && len(h.units) > 0 {
		now = max(now, h.units[len(h.units)-1])
	}
	for range n {
		h.units = append(h.units, now)
	}
	if over := len(h.units) - int(shape.limit); shape.Logged() && over > 0 {
		h.units = h.units[over:]
	}
}

// settle charges what a store has admitted, which says that its bucket is as full as
// this one then or, of a log, full for a while.
func (m *slidingModel) settle(t *testing.T, rng *rand.Rand, d sketch.Digest, h *history, now, n uint64) {
	t.Helper()
	shape, reported := &m.tb.shape, uint64(0)
	if n = min(n, shape.limit); n == 0 {
		return
	}
	h.add(now, n, shape)
	if shape.Logged() {
		if rng.IntN(2) == 0 {
			reported = now + rng.Uint64N(shape.period)
			h.full = max(h.full, reported)
		}
	} else {
		previous, current := m.counts(h, now)
		reported = shape.Reported(m.ticks(now), Pack(rng.Uint64N(previous+1), rng.Uint64N(current+1)))
	}
	m.tb.Settle(d, m.ticks(now), n, reported)
	m.evicted(t, d, now)
}

func (m *slidingModel) counts(h *history, now uint64) (previous, current uint64) {
	for _, at := range h.units {
		switch now/m.tb.shape.period - at/m.tb.shape.period {
		case 0:
			current++
		case 1:
			previous++
		}
	}
	return previous, current
}

// checkWaits checks that n units fit after the wait that is told, and not a µs before.
func (m *slidingModel) checkWaits(t *testing.T, d sketch.Digest, h *history, now, n uint64) {
	t.Helper()
	var retry, empty uint64
	if m.tb.shape.Logged() {
		_, retry, empty = m.tb.Log(d, now, n)
	} else {
		r, e := m.tb.shape.Waits(m.tb.Lookup(d), m.ticks(now), time.Duration(now)*time.Microsecond, n)
		retry, empty = uint64(r/time.Microsecond), uint64(e/time.Microsecond)
	}
	if m.level(h, now+retry)+n > m.tb.shape.limit || retry > 0 && m.level(h, now+retry-1)+n <= m.tb.shape.limit {
		t.Fatalf("%d units are to fit in %d µs, not before", n, retry)
	}
	if m.level(h, now+empty) > 0 || empty > 0 && m.level(h, now+empty-1) == 0 {
		t.Fatalf("empty in %d µs", empty)
	}
}
