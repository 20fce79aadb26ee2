// Package count counts the hits of Envoy's rate limit service in fixed windows, in the
// memory of this process.
//
// There is a table of windows (package bucket) for each unit that is in use, made when it is
// first used. How many requests a limit admits is no part of a window, so that all limits of
// a unit share a table, a limit may change while its window runs, and a request may bring a
// limit of its own.
//
// A table has a fixed size. When it is full the lowest count of some is forgotten, and that
// client begins at 0 again; [Counters.Evictions] counts those.
package count

import (
	"crypto/rand"
	"math"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/rls/descriptor"
	"github.com/fastlimit/fastlimit/sketch"
)

// Hit is what a request adds to one counter.
type Hit struct {
	Key   []byte // of the counter; no two counters of a unit have the same
	Name  []byte // of the counter in a store, without its window; for [Shared]
	Unit  descriptor.Unit
	Hits  uint64 // 0 only asks
	Limit uint64 // counts above it are all the same to the caller; for [Shared]

	// Count is the count afterwards. Beyond 2^32-1 it is only known to be larger than that.
	Count uint64

	waited time.Duration // by [Shared.Ask]
}

// Counters are safe for concurrent use. The zero value is not usable: call [New].
type Counters struct {
	hasher  sketch.Hasher
	buckets int // of each table
	tables  units[windows]
}

// windows are the counters of one unit.
type windows struct {
	bucket.Table

	shape bucket.Shape
}

// New returns counters for so many clients of each unit at a time, which take 20 bytes for
// each in use. Nobody can choose keys that share a counter: which do is random.
func New(clients int) (*Counters, error) {
	var secret sketch.Secret
	rand.Read(secret[:])
	return newCounters(clients, secret)
}

func newCounters(clients int, secret sketch.Secret) (*Counters, error) {
	hasher, err := sketch.NewHasher(secret, "rls")
	c := &Counters{hasher: hasher, buckets: clients}
	if err == nil {
		_, err = c.table(descriptor.Second) // is the size possible?
	}
	return c, err
}

// table returns that of a unit.
func (c *Counters) table(u descriptor.Unit) (*windows, error) {
	return c.tables.get(u, func() (*windows, error) {
		shape, err := bucket.NewWindow(bucket.MaxWindowUnits, u.Duration())
		if err != nil {
			return nil, err
		}
		t := &windows{shape: shape}
		return t, t.Init(shape, (c.buckets+3)/4)
	})
}

// Add counts hits, one after the other, in the windows of a time since 1970. It fails on a
// unit that is none, and has then counted those before it.
func (c *Counters) Add(now time.Duration, hits []Hit) error {
	return c.each(now, hits, func(t *windows, d sketch.Digest, ticks uint64, h *Hit) {
		t.add(d, ticks, h)
	})
}

// add counts a hit and returns the state of its window.
func (t *windows) add(d sketch.Digest, ticks uint64, h *Hit) (state uint64) {
	if h.Hits == 0 {
		state = t.LookupLocked(d)
		h.Count = level(state, ticks)
		return state
	}
	state, fits := t.TakeCounted(d, ticks, min(h.Hits, tooMany))
	if h.Count = level(state, ticks); !fits { // the window is full now
		h.Count = max(h.Hits, tooMany)
	}
	return state
}

// tooMany is more than a window counts.
const tooMany = bucket.MaxWindowUnits + 1

// Ask sets the counts as if each of the hits were added, and no other, and adds none.
func (c *Counters) Ask(now time.Duration, hits []Hit) error {
	return c.each(now, hits, func(t *windows, d sketch.Digest, ticks uint64, h *Hit) {
		h.Count = sum(level(t.LookupLocked(d), ticks), h.Hits)
	})
}

// sum is a+b, or the largest number.
func sum(a, b uint64) uint64 { return a + min(b, math.MaxUint64-a) }

func (c *Counters) each(now time.Duration, hits []Hit, f func(t *windows, d sketch.Digest, ticks uint64, h *Hit)) error {
	for i := range hits {
		h := &hits[i]
		t, err := c.table(h.Unit)
		if err != nil {
			return err
		}
		f(t, c.hasher.Bytes(h.Key), t.shape.WindowTicks(now), h)
	}
	return nil
}

// level is the count of a state. That of a window after this one is by a later reading of
// the clock, and counts.
func level(state, ticks uint64) uint64 {
	if state < ticks {
		return 0
	}
	return state & bucket.MaxWindowUnits
}

// Named reports that hits need no name.
func (*Counters) Named() bool { return false }

// Evictions returns how many counters were forgotten before their windows were over.
func (c *Counters) Evictions() (n uint64) {
	c.tables.each(func(t *windows) { n += t.Evictions() })
	return n
}

// Sweep keeps lookups fast: it is to be called every second or so.
func (c *Counters) Sweep(now time.Duration) {
	c.tables.each(func(t *windows) { t.Sweep(t.shape.WindowTicks(now), 0, 1) })
}
