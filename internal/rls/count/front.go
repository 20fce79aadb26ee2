package count

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/fastlimit/fastlimit/internal/rls/descriptor"
	"github.com/fastlimit/fastlimit/sketch"
)

// Front decides for counters with few hits in their window, so that only the others reach what
// is behind it, such as a store. It counts in a sketch, which may take others' hits for those
// of a counter, but never misses one: of each counter at most [FrontConfig.EscalateAt] hits of
// a window are admitted in front, and no more.
//
// What is behind does not learn of those. So a client gets up to that many hits more than its
// limit. None is denied for it: who has many hits in the sketch is counted behind from then on.
// Limits of less than twice as many have nothing in front.
//
// It is safe for concurrent use.
type Front struct {
	behind   Counter
	hasher   sketch.Hasher
	at       uint64
	blocks   int                 // of each sketch
	sketches units[sketch.Leaky] // whose times are windows<<32
}

// Counter counts hits in windows, at a time since 1970; see [Counters].
type Counter interface {
	Add(now time.Duration, hits []Hit) error
	Ask(now time.Duration, hits []Hit) error
	Named() bool // whether hits need a name
}

// MaxEscalateAt keeps the level of a cell apart from the number of its window.
const MaxEscalateAt = 1 << 30

// blockClients is how many clients there are for a block of the sketch: two cells each.
const blockClients = 4

// NewFront returns a front for so many clients of each unit at a time, in 16 bytes for each. If
// there are many more, most of them are counted behind.
func NewFront(behind Counter, clients int, at uint64) (*Front, error) {
	if at < 1 || at > MaxEscalateAt {
		return nil, fmt.Errorf("fastlimit/rls: escalate at %d: want 1 to %d", at, MaxEscalateAt)
	}
	var secret sketch.Secret
	rand.Read(secret[:])
	hasher, err := sketch.NewHasher(secret, "rls front")
	return &Front{behind: behind, hasher: hasher, at: at, blocks: max(1, clients/blockClients)}, err
}

// Named is that of what is behind.
func (f *Front) Named() bool { return f.behind.Named() }

// Add adds hits. The count of one that is admitted in front is the most that may be, whatever
// it is.
func (f *Front) Add(now time.Duration, hits []Hit) error {
	return f.each(now, hits, f.behind.Add, func(s *sketch.Leaky, d sketch.Digest, window, hits uint64) uint64 {
		if hits > 0 {
			s.Add(d, window, hits)
		}
		// Hits that come at the same time may each be the first in a cell. Once all are
		// there, the last one sees all.
		return s.Level(d, window)
	})
}

// Ask sets the counts as if each of the hits were added, and no other, and adds none.
func (f *Front) Ask(now time.Duration, hits []Hit) error {
	return f.each(now, hits, f.behind.Ask, func(s *sketch.Leaky, d sketch.Digest, window, hits uint64) uint64 {
		return s.Level(d, window) + hits
	})
}

// each decides for the hits that level finds few enough, and has the others counted behind.
func (f *Front) each(now time.Duration, hits []Hit, behind func(time.Duration, []Hit) error, level func(s *sketch.Leaky, d sketch.Digest, window, hits uint64) uint64) error {
	var escalated []Hit
	var from []int // of each of them in hits
	for i := range hits {
		h := &hits[i]
		s, err := f.sketch(h.Unit)
		if err != nil {
			return err
		}
		if h.Limit >= 2*f.at && level(s, f.hasher.Bytes(h.Key), window(now, h.Unit)<<32, min(h.Hits, f.at+1)) <= f.at {
			h.Count = f.at
			continue
		}
		escalated, from = append(escalated, *h), append(from, i)
	}
	if len(escalated) == 0 {
		return nil
	}
	if err := behind(now, escalated); err != nil {
		return err
	}
	for i, h := range escalated {
		hits[from[i]] = h
	}
	return nil
}

// sketch returns that of a unit.
func (f *Front) sketch(u descriptor.Unit) (*sketch.Leaky, error) {
	return f.sketches.get(u, func() (*sketch.Leaky, error) {
		s := new(sketch.Leaky)
		return s, s.Init(f.blocks, f.at+1)
	})
}
