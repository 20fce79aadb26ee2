// Package window rotates the generations of the first-seen filter.
//
// A [Filter] has the two generations of a [sketch.Blooms]. A sighting marks the current
// one; a client is new if neither knows it. Every period the previous generation is wiped
// and becomes the current one, so that a mark made at t is remembered until t + W at least,
// where W is the configured window, and until t + 2W + W/8 at most, plus the delays of the
// two rotations after it.
//
// All errors are towards remembering: late rotations, a clock that steps back, and a
// saturated filter all mean that fewer clients count as new, and being known costs a client
// no more than an exact check.
package window

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// Filter is a rotating first-seen filter. It is safe for concurrent use; no
// lookup waits for a rotation. The zero value is not usable: call
// [Filter.Init].
type Filter struct {
	// epoch counts rotations; generation epoch&1 is the current one. Written under mu.
	epoch atomic.Uint64
	// due is the time of the next rotation in ns. Written under mu.
	due    atomic.Int64
	period int64 // W and the margin for wiping, ns
	gens   sketch.Blooms

	mu sync.Mutex // serializes rotations; never held by a lookup
}

// maxWindow keeps sums of times and periods within 64 bits.
const maxWindow = 10 * 366 * 24 * time.Hour

// Init gives the filter window w over two generations of the given number of 64-bit words
// each. The first of them begins at now. Call it before anything else.
func (f *Filter) Init(w time.Duration, words int, now time.Duration) error {
	if w <= 0 || w > maxWindow {
		return fmt.Errorf("fastlimit/window: window %v: want more than 0 and at most %v", w, maxWindow)
	}
	gens, err := sketch.NewBlooms(words)
	if err != nil {
		return err
	}
	f.gens = *gens
	// Wiping takes time (8 ms for 8 MiB of used words), and marks made
	// meanwhile must live for W all the same: a sixteenth is added for it.
	f.period = int64(w) + int64(w)/16
	f.due.Store(after(now, f.period))
	return nil
}

// after returns now + period, or the end of time if that is earlier: the window then lasts.
func after(now time.Duration, period int64) int64 {
	if int64(now) > math.MaxInt64-period {
		return math.MaxInt64
	}
	return int64(now) + period
}

// FirstSeen marks d at time now and reports whether no sighting of it is
// remembered. Of any number of concurrent calls for one digest at most one
// returns true.
func (f *Filter) FirstSeen(d sketch.Digest, now time.Duration) bool {
	return f.mark(f.epoch.Load(), d, now)
}

// mark is FirstSeen for a caller that found the epoch to be e.
func (f *Filter) mark(e uint64, d sketch.Digest, now time.Duration) bool {
	// A request rotates the generations only if Advance was not called for a sixteenth of a
	// period.
	if int64(now)-f.due.Load() >= f.period>>4 {
		f.Advance(now)
		e = f.epoch.Load()
	}
	// Mark first, then look into the previous one. A caller that still takes the other
	// generation for the current one does the same with the two exchanged, so one of the
	// two sees the other's mark and they cannot both be first.
	first := f.gens.MarkNew(e, d)
	if turned := f.epoch.Load(); turned != e {
		// The mark is gone already or will be too soon.
		f.gens.Mark(turned, d)
	}
	return first
}

// KnowEverybody remembers every client as if it had been seen just now: no client is first
// seen for a window. Call it before anything else, for a filter that replaces one whose
// sightings it does not know.
func (f *Filter) KnowEverybody() { f.gens.Fill(f.epoch.Load() + 1) }

// Merge remembers the clients that from remembers, or every client if from has another
// size. Its window may differ. The clients stay for W at least, as of now. Both may be in
// use.
func (f *Filter) Merge(from *Filter) {
	f.mu.Lock() // no rotation meanwhile
	defer f.mu.Unlock()
	if e := f.epoch.Load(); from == nil || !f.gens.Merge(e, &from.gens) {
		f.gens.Fill(e)
	}
}

// Known reports whether a sighting of d is remembered, and marks nothing.
func (f *Filter) Known(d sketch.Digest) bool {
	return f.gens.Has(0, d) || f.gens.Has(1, d)
}

// Advance rotates the generations if the period is over at now. One caller rotates, others
// return at once. If the clock is before the start of the current period, a new one starts
// at now.
//
// However long the period has been over, it rotates once: a second rotation would wipe the
// marks that are being made during the first. What was known before a long gap stays known
// for one more period.
func (f *Filter) Advance(now time.Duration) {
	if !f.mu.TryLock() {
		return
	}
	defer f.mu.Unlock()
	due := f.due.Load()
	late := int64(now) - due
	if late < 0 && late >= -f.period || due == math.MaxInt64 {
		return
	}
	if late >= 0 {
		e := f.epoch.Load()
		f.gens.Reset(e + 1)
		f.epoch.Store(e + 1)
	}
	f.due.Store(after(now, f.period))
}

// Clients estimates the distinct clients marked in the current generation.
func (f *Filter) Clients() uint32 {
	const sampleWords = 1 << 16
	return f.gens.Population(f.epoch.Load(), sampleWords)
}
