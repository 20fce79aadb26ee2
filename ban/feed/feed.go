package feed

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// longest is the longest ban. It keeps sums of times far from overflow.
const longest = 10 * 365 * 24 * time.Hour

// Feed keeps a kernel up to date with bans. All methods may be called concurrently.
type Feed struct {
	config   Config
	start    time.Time
	bans     *bans
	up       atomic.Bool
	counters counters

	wake   chan struct{} // capacity 1: there is something to send
	quit   chan struct{}
	closed sync.Once
	ended  chan struct{} // the worker has
	err    error         // of the writer's Close, once ended
}

// Open opens the writer and starts to feed it. It fails if the writer does, and leaves
// nothing open then. In shadow it does not touch the writer.
func Open(c Config) (*Feed, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	f := &Feed{
		config: c, start: time.Now(), bans: newBans(&c),
		wake: make(chan struct{}, 1), quit: make(chan struct{}), ended: make(chan struct{}),
	}
	if !c.Shadow {
		if err := c.Writer.Open(); err != nil {
			return nil, err
		}
		f.up.Store(true)
	}
	go f.work()
	return f, nil
}

// Add bans a prefix for a time from now on, and reports whether it is banned: false if it
// was refused, which [Stats] counts. A ban that lasts longer stays as it is. The prefix
// need not be masked; IPv4 mapped to IPv6 is IPv4. Add never waits for the kernel, and for
// a ban that is already held it is one lookup.
func (f *Feed) Add(p netip.Prefix, d time.Duration) bool {
	p, ok := canonical(p)
	if !ok || d <= 0 {
		return f.refuse(RefusedInvalid)
	}
	now := f.now()
	end := now + min(d, longest)
	if f.bans.holds(p, end, now) {
		return true
	}
	if wide(p) {
		return f.refuse(RefusedWide)
	}
	if reason, ok := f.bans.hold(p, end, now); !ok {
		return f.refuse(reason)
	}
	f.counters.added.Add(1)
	f.signal()
	return true
}

func (f *Feed) refuse(r Refusal) bool {
	f.counters.refused[r].Add(1)
	return false
}

// Remove ends the ban of exactly this prefix, and reports whether there was one. Bans of
// prefixes around it or within it stay.
func (f *Feed) Remove(p netip.Prefix) bool {
	p, ok := canonical(p)
	if !ok || !f.bans.drop(p, f.now()) {
		return false
	}
	f.counters.removed.Add(1)
	f.signal()
	return true
}

// Holds reports whether the address is within a banned prefix and the kernel enforces bans,
// as far as is known. It is false in shadow, and while the kernel fails: its clients must
// then be answered.
func (f *Feed) Holds(a netip.Addr) bool {
	return f.up.Load() && a.IsValid() && f.bans.covers(a.Unmap().WithZone(""), f.now())
}

// Close ends the bans: it stops the worker and closes the writer, whose error it returns.
// Later calls of Add change nothing but the counters.
func (f *Feed) Close() error {
	f.closed.Do(func() { close(f.quit) })
	<-f.ended
	return f.err
}

// now returns the time since the start. Unlike the wall clock it does not jump.
func (f *Feed) now() time.Duration { return time.Since(f.start) }

func (f *Feed) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}
