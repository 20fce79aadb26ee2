package remote

import (
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

const (
	driftShift = bucket.DriftShift

	// readingAge times the timeout is how old a reading may be: drift then
	// amounts to a sixteenth of the timeout.
	readingAge = 1 << driftShift / 16
)

// Reading is what a server's clock said at some time between Asked and Got, in
// µs.
type Reading struct {
	Micros     int64
	Asked, Got time.Time
}

// lower returns a lower bound of the server's time at t, in µs. It assumes only that the
// server read its clock before its answer arrived, and that the clocks drift apart by no
// more than driftShift says. The bound needs no symmetric round trip.
func (r *Reading) lower(t time.Time) int64 {
	d := t.Sub(r.Got)
	if d >= 0 {
		d -= d >> driftShift
	} else {
		d += d >> driftShift
	}
	us := d.Microseconds()
	if d < 0 {
		us-- // rounded towards 0
	}
	return r.Micros + us
}

// usable reports whether the reading is recent and exact enough for operations
// that have to be carried out within timeout.
func (r *Reading) usable(now time.Time, timeout time.Duration) bool {
	return !r.Got.IsZero() && now.Sub(r.Got) <= readingAge*timeout && r.Got.Sub(r.Asked) <= timeout/2
}

// Clocks keeps the best reading of the clock of each of a store's servers, by
// address, so that operations can be dated by the clock that will judge them. It
// is safe for concurrent use. The zero value knows no clock.
type Clocks struct {
	mu   sync.Mutex
	best map[string]Reading // guarded by mu
}

func (c *Clocks) get(addr string) Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.best[addr]
}

// Observe keeps a reading if it gives a higher bound than the one before, or
// contradicts it: then the clock has stepped back or is another server's.
func (c *Clocks) Observe(addr string, r Reading) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.best[addr]; ok && old.lower(r.Got) > r.lower(r.Got) && old.lower(r.Asked) <= r.Micros {
		return
	}
	if c.best == nil {
		c.best = make(map[string]Reading)
	}
	c.best[addr] = r
}

// Forget drops all readings: a connection that is new or has failed may lead
// to another server.
func (c *Clocks) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.best)
}

// Dating returns how to date operations that are about to be sent to the server
// at addr: by a recent reading of its clock, or else by a new one, for which ask
// makes a round trip. If that fails they must not be sent, as the server could
// not tell whether they are late.
func (c *Clocks) Dating(addr string, timeout time.Duration, now func() time.Time, ask func() (micros int64, err error)) (Dating, error) {
	d := Dating{c.get(addr), now()}
	if d.usable(d.Sent, timeout) {
		return d, nil
	}
	r := Reading{Asked: now()}
	var err error
	if r.Micros, err = ask(); err != nil {
		c.Forget()
		return Dating{}, err
	}
	r.Got = now()
	c.Observe(addr, r)
	return Dating{c.get(addr), r.Got}, nil
}

// Dated reports whether the effect of op depends on its age, so that a driver
// has to translate Op.At to the store's clock.
func Dated(op *bucket.Op) bool { return op.Patience > 0 || op.Floor > 0 }

// Dating dates operations by a reading of the server's clock. The zero value
// dates none of them.
type Dating struct {
	Reading

	Sent time.Time // when the operations are sent
}

// Date returns a lower bound of the server's time at op.At, 0 if that is not known.
func (d *Dating) Date(op *bucket.Op) uint64 {
	if !Dated(op) {
		return 0
	}
	return d.bound(op.At)
}

// SentDate returns a lower bound of the server's time when the operations are sent. A
// server whose clock is before that knows that the clock has stepped back.
func (d *Dating) SentDate() uint64 { return d.bound(d.Sent) }

func (d *Dating) bound(t time.Time) uint64 {
	if d.Got.IsZero() {
		return 0
	}
	return uint64(max(0, d.lower(t)))
}
