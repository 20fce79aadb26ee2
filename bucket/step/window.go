package step

import "github.com/fastlimit/fastlimit/bucket"

// applyWindow is Apply for [bucket.FixedWindow]. A window is a number, that of the
// period since 1970 which now is in. State.Level is the count, State.Last the window,
// State.Unit the period and State.Quiet the window in which floors are ignored.
func applyWindow(s State, now uint64, r Request) (State, Result) {
	window := now / r.Unit
	if r.Kind == bucket.Reset {
		return storeWindow(0, window, window, now, r, Result{})
	}
	level, quiet, moved := windowAt(s, window, r)
	floor := uint64(0)
	if r.Window == window && !quiet {
		floor = r.Floor
	}
	back := r.Back
	if r.Kind == bucket.Refund {
		back = r.Cost
	}
	if r.Window > 0 && r.Window != window {
		back = 0 // it was charged in a window that is over
	}
	if back > 0 && level > 0 {
		level, quiet, moved = level-min(level, back), true, true
	}
	if floor > level {
		level, moved = floor, true
	}
	res := Result{Level: level}
	switch r.Kind {
	case bucket.Peek:
		res.Granted = fits(level, r)
		return s, res
	case bucket.Take:
		res.Granted = fits(level, r)
		charge := res.Granted * r.Cost
		if r.CountDenied && res.Granted < r.Count {
			charge = r.Limit - min(level, r.Limit) // since one of them does not fit
		}
		level, moved = level+charge, moved || charge > 0
	}
	if res.Level = level; !moved {
		return s, res
	}
	ignored := uint64(0)
	if quiet {
		ignored = window
	}
	return storeWindow(level, ignored, window, now, r, res)
}

func storeWindow(level, quiet, window, now uint64, r Request, res Result) (State, Result) {
	res.Write = true
	res.TTL = int64((r.Unit-now%r.Unit)/1000) + 2 // as in store
	return State{Algorithm: r.Algorithm, Level: level, Last: window, Unit: r.Unit, Quiet: quiet}, res
}

// windowAt returns the count in a window, and whether floors are ignored in it. A
// state of a later window is one from before the clock stepped back: no time has
// passed since, so it is one of this window now, and must be written as such, or
// it would count until the clock has caught up.
func windowAt(s State, window uint64, r Request) (level uint64, quiet, moved bool) {
	if s.Unit != r.Unit || s.Last < window {
		return 0, false, false // another period, or a window that is over
	}
	return s.Level, s.Quiet == s.Last && s.Quiet > 0, s.Last > window
}
