package fastlimit

import (
	"io"

	"github.com/fastlimit/fastlimit/internal/engine"
)

// Save writes what the limiter knows about its clients, for [Load] after a restart:
// buckets, bans and denials that count towards one, sketches, the first-seen filter and the
// secret of the digests. Counters, top talkers, waiting requests and operations in flight
// are not included. Keep the state secret: anyone who reads it can tell who the clients are
// and choose keys that collide.
//
// Save may be called at any time. Requests continue meanwhile; they wait at most while a
// set of a table is read. Everything charged before the call is in the state; charges
// during the call may or may not be. A refund, reset or unban during the call is not.
//
// It writes pieces of about 64 KiB. It allocates memory for the largest log, if rules keep
// any, and for a copy of half of the filter. Idle clients take no room except in the
// filter. The error is that of w.
func (l *Limiter) Save(w io.Writer) error { return l.engine().Save(w) }

// ErrState is the error of a state that cannot be taken over: it is not a state, or of
// another version or machine, torn, damaged, too large, too old or from the future. It does
// not mean that anything else is wrong.
var ErrState = engine.ErrState

// LoadOptions are the options of [Load].
type LoadOptions struct {
	// Memory is the most that the limiter may allocate, in bytes. 0 means 1 GiB.
	Memory int64

	// Clock is the clock for the new limiter, if the saved one had a [ManualClock];
	// otherwise it must be nil. It is set to the time of the state unless it is later: the
	// owner of the clock knows how old the state is.
	Clock *ManualClock
}

// Load reads to its end what [Limiter.Save] has written, and returns a limiter with the
// rules and sizes that were saved. Its time is that of the state plus the time elapsed
// since. It has no store, no callbacks and no top talkers. Pass it to [Limiter.With], which
// takes over its state under today's configuration, or to [Limiter.Merge].
//
// Elapsed time comes from this machine's clock that includes suspension, or from the wall
// clock after a reboot. It is never underestimated, so no client is denied for units that
// have leaked meanwhile. A state whose age cannot be determined is refused. The error is an
// [ErrState], or that of r.
func Load(r io.Reader, o LoadOptions) (*Limiter, error) {
	l, err := engine.Load(r, engine.LoadOptions{Memory: o.Memory, Clock: (*engine.ManualClock)(o.Clock)})
	return (*Limiter)(l), err
}

// Merge raises the state of each rule that from has too, with the same name, KeyKind and
// prefixes, to the maximum of both: buckets, sketch cells, bans and what counts towards
// them. It is for a process that was started while another one was running, and gets that
// one's state when it has ended. from must have the same Secret, or Merge returns an error,
// and must not make any more decisions. Its clock, sizes and limits may differ: the current
// times of the two limiters are taken to be the same moment, and units are kept as by
// [Limiter.With]. Only windows begin by the wall time of each limiter. Counts in a window
// of from that has not begun by the time of l, because from's clock was ahead, are
// forgiven.
//
// The maximum is used because both may have begun from the same state: what each of them
// has admitted after that is not added up. So no client is denied that neither would have
// denied ("P1"), and a client that used both for a while has had up to twice the limit.
//
// The first-seen filter knows the clients that either has seen or, if the two differ in
// size, treats every client as seen for a window. Counters and top talkers are not merged.
// l may be in use.
func (l *Limiter) Merge(from *Limiter) error { return l.engine().Merge(from.engine()) }
