package window

import (
	"fmt"
	"io"
	"time"

	"github.com/bits-and-blooms/bloom/v3"

	"github.com/fastlimit/fastlimit/internal/frames"
)

// State is all that a [Filter] knows, at one moment.
type State struct {
	Due      time.Duration // when the generations turn
	Current  *bloom.BloomFilter
	Previous *bloom.BloomFilter
}

// State returns a copy of what the filter knows: of all sightings that were before the
// call, and of some that are made meanwhile. Until it returns nothing turns, which no lookup
// waits for.
func (f *Filter) State() State {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.epoch.Load()
	return State{Due: time.Duration(f.due.Load()), Current: f.gens.Copy(e), Previous: f.gens.Copy(e + 1)}
}

// Restore has the filter, which is of the same window and size and whose time goes on, know
// what another one knew. r has what the library has written of Current and then of Previous. Nobody
// may use the filter yet.
func (f *Filter) Restore(due time.Duration, r io.Reader) error {
	if due < 0 {
		return fmt.Errorf("%w: a filter that turns at %v", frames.ErrDamaged, due)
	}
	e := f.epoch.Load()
	for _, g := range [...]uint64{e, e + 1} {
		if err := f.gens.Restore(g, r); err != nil {
			return err
		}
	}
	f.due.Store(int64(due))
	return nil
}
