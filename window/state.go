package window

import (
	"fmt"
	"io"
	"time"

	"github.com/fastlimit/fastlimit/internal/frames"
)

// State is the state of a [Filter], for another process.
type State struct {
	Due time.Duration // when the generations rotate

	f     *Filter
	epoch uint64
}

// State returns the filter's state, which its WriteTo copies.
func (f *Filter) State() State {
	f.mu.Lock() // lookups do not take it
	defer f.mu.Unlock()
	return State{Due: time.Duration(f.due.Load()), f: f, epoch: f.epoch.Load()}
}

// WriteTo makes the library write both generations, the current one first, and allocates
// memory for a copy of one at a time. Their contents are from any moment since the call of
// State. If they rotate meanwhile, the older one has only sightings since: its earlier
// contents are out of date by then.
func (s State) WriteTo(w io.Writer) (n int64, err error) {
	for g := s.epoch; g <= s.epoch+1 && err == nil; g++ {
		var m int64
		m, err = s.f.gens.Copy(g).WriteTo(w)
		n += m
	}
	return n, err
}

// Restore loads the state of another filter of the same window and size, whose State has
// been written to r, and whose time continues. The filter must not be in use yet.
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
