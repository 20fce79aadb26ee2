package window

import (
	"fmt"
	"io"
	"time"

	"github.com/fastlimit/fastlimit/internal/frames"
)

// State is what a [Filter] knows, for another process.
type State struct {
	Due time.Duration // when the generations turn

	f     *Filter
	epoch uint64
}

// State returns what the filter knows, which its WriteTo copies.
func (f *Filter) State() State {
	f.mu.Lock() // no lookup waits for it
	defer f.mu.Unlock()
	return State{Due: time.Duration(f.due.Load()), f: f, epoch: f.epoch.Load()}
}

// WriteTo has the library write both generations, the current one first, and takes memory
// for a copy of one at a time. They are of any moment since the call of State. If they turn
// meanwhile, the older one has only sightings since: what it had before is out of date by then.
func (s State) WriteTo(w io.Writer) (n int64, err error) {
	for g := s.epoch; g <= s.epoch+1 && err == nil; g++ {
		var m int64
		m, err = s.f.gens.Copy(g).WriteTo(w)
		n += m
	}
	return n, err
}

// Restore has the filter, which is of the same window and size and whose time goes on, know
// what another one knew, whose State has been written to r. Nobody may use the filter yet.
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
