package fastlimit

import (
	"io"

	"github.com/fastlimit/fastlimit/internal/engine"
)

// Save writes what the limiter knows about its clients, for [Load] after a restart: buckets,
// bans and denials that count towards one, sketches, the first-seen filter and the secret of
// the digests. Counters, top talkers, requests that wait and operations in flight are not
// included. Keep the state from others: whoever reads it can tell who the clients are and choose
// keys that collide.
//
// Save may be called at any time. Requests continue meanwhile and wait at most while a set of a
// table is read. What they charge during the call may or may not be in the state; everything
// charged before the call is. A refund, reset or unban during the call is not.
//
// It writes pieces of about 64 KiB, and takes memory for the largest log of the rules that
// keep any, and for a copy of half of the filter. Idle clients take no room except in the filter. The
// error is that of w.
func (l *Limiter) Save(w io.Writer) error { return l.engine().Save(w) }

// ErrState is the error of a state that cannot be taken over: it is not one, of another version
// or machine, torn, damaged, too large, too old or from the future. Nothing but that is wrong.
var ErrState = engine.ErrState

// LoadOptions are for [Load].
type LoadOptions struct {
	// Memory is what the limiter may take at most, in bytes. 0 means 1 GiB.
	Memory int64

	// Clock is the clock for the new limiter, if the one that was saved had a [ManualClock]. It
	// is set to the time of the state, unless it is later: the owner of the clock knows how old
	// the state is. Otherwise it must be nil.
	Clock *ManualClock
}

// Load reads what [Limiter.Save] has written, to its end, and returns a limiter with the rules and
// sizes that were saved. Its time is that of the state plus the time that has passed since. It has
// no store, no callbacks and no top talkers. Hand it to [Limiter.With], which takes over its
// state under today's configuration, or to [Limiter.Merge].
//
// Elapsed time comes from this machine's clock that includes suspension, or from the wall clock
// after a reboot. It is at least what has passed, so that nobody is denied for
// what has leaked meanwhile. A state whose age cannot be told is refused. The error is an
// [ErrState], or that of r.
func Load(r io.Reader, o LoadOptions) (*Limiter, error) {
	l, err := engine.Load(r, engine.LoadOptions{Memory: o.Memory, Clock: (*engine.ManualClock)(o.Clock)})
	return (*Limiter)(l), err
}

// Merge raises the state of each rule that from has too, with the same name, KeyKind and
// prefixes, to the maximum of both: buckets, sketch cells, bans and what counts towards them.
// It is for a process that was started beside another one, and gets that one's state when it has
// ended. from is a limiter of the same Secret, or the error says so; it needs no clock, sizes or
// limits of this one, as the time that each of them has is taken to be the same moment, and
// units stay as by [Limiter.With]. Only windows begin by the wall time of each. What from has
// counted in one that has not begun by l's, since its clock was ahead, is forgiven. from must not
// decide anything any more.
//
// By maximum, since both may have begun from the same state: what a client was admitted by one
// of them after that is not added to what it was by the other. So nobody is denied who was not
// denied by either ("P1"), and who used both for a while has had up to twice the limit.
//
// The first-seen filter knows whom either has seen, or, if they differ in size, everybody for a
// window. Counters and top talkers are not merged. l may be in use.
func (l *Limiter) Merge(from *Limiter) error { return l.engine().Merge(from.engine()) }
