package redisstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/remote"
)

const (
	// driftShift bounds how differently two clocks run: by 2^-10, twice the
	// 500 ppm at which NTP slews.
	driftShift = 10

	// readingAge times the timeout is how old a reading may be: drift then
	// amounts to a sixteenth of the timeout.
	readingAge = 1 << driftShift / 16
)

// reading is what a server's clock said at some time between asked and got.
type reading struct {
	micros     int64
	asked, got time.Time
}

// lower is a lower bound of the server's time at t, in µs. Nothing but the order
// of events on either side enters into it: the server read its clock before
// its answer came, and clocks drift apart by so much at most.
func (r *reading) lower(t time.Time) int64 {
	d := t.Sub(r.got)
	if d >= 0 {
		d -= d >> driftShift
	} else {
		d += d >> driftShift
	}
	us := d.Microseconds()
	if d < 0 {
		us-- // rounded towards 0
	}
	return r.micros + us
}

// usable tells whether the reading is young and sharp enough for operations
// that have timeout to be carried out.
func (r *reading) usable(now time.Time, timeout time.Duration) bool {
	return !r.got.IsZero() && now.Sub(r.got) <= readingAge*timeout && r.got.Sub(r.asked) <= timeout/2
}

// clocks keeps the best reading of the clock of each server, by address; one
// for all that is not a cluster. It is safe for concurrent use.
type clocks struct {
	mu   sync.Mutex
	best map[string]reading // guarded by mu
}

func (c *clocks) get(addr string) reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.best[addr]
}

// observe notes a reading. It replaces one that says less, and one that it
// contradicts: the clock has stepped back, or it is another server's.
func (c *clocks) observe(addr string, r reading) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.best[addr]; ok && old.lower(r.got) > r.lower(r.got) && old.lower(r.asked) <= r.micros {
		return
	}
	if c.best == nil {
		c.best = make(map[string]reading)
	}
	c.best[addr] = r
}

// forget drops all readings: a connection that is new or has failed may lead
// to another server.
func (c *clocks) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.best)
}

// readClock finds out the clock of the server that a call goes to, if it needs
// to know: from a recent answer, or else by asking, which costs a round trip.
// An operation must not be sent without: nobody could tell how late it is.
func (d *driver) readClock(ctx context.Context, c *call) error {
	c.clock, c.addr = opTimes{}, ""
	if !slices.ContainsFunc(c.ops, remote.Dated) {
		return nil
	}
	to, addr, err := d.serverOf(ctx, c)
	if err != nil {
		return err
	}
	c.addr = addr
	c.clock = opTimes{d.clocks.get(addr), d.now()}
	if c.clock.usable(c.clock.at, d.config.Timeout) {
		return nil
	}
	r := reading{asked: d.now()}
	if d.clock != nil {
		r.micros = int64(d.clock()) //nolint:gosec // a test's
	} else {
		d.counters.commands.Add(1)
		pipe := to.Pipeline()
		cmd := pipe.Time(ctx)
		if _, err := pipe.Exec(ctx); err != nil {
			d.clocks.forget()
			return err
		}
		r.micros = cmd.Val().UnixMicro()
	}
	r.got = d.now()
	d.clocks.observe(addr, r)
	c.clock = opTimes{d.clocks.get(addr), r.got}
	return nil
}

// observe learns the clock from the answer to a call.
func (d *driver) observe(c *call, micros int64) {
	if c.addr != "" || d.client.cluster == nil && c.to == "" {
		d.clocks.observe(c.addr, reading{micros: micros, asked: c.sent, got: c.got})
	}
}

// serverOf returns the server that a call goes to, and its address, which is empty but
// in a cluster.
func (d *driver) serverOf(ctx context.Context, c *call) (pipeliner, string, error) {
	if c.to != "" || d.client.cluster == nil {
		return d.client.node(c.to), c.to, nil
	}
	node, err := d.client.cluster.MasterForKey(ctx, d.config.KeyPrefix+c.ops[0].Key)
	if err != nil {
		return nil, "", err
	}
	return node, node.Options().Addr, nil
}

// opTimes is what dates the operations of a command: what the server's clock
// said, and when the command is sent. The zero value dates nothing.
type opTimes struct {
	reading

	at time.Time
}

// date is the server's time at op.At at the earliest, 0 if that is not known.
func (d *opTimes) date(op *bucket.Op) uint64 {
	if d.got.IsZero() || !remote.Dated(op) {
		return 0
	}
	return uint64(max(0, d.lower(op.At)))
}

// sent is the server's time when the command is sent, at the earliest.
func (d *opTimes) sent() uint64 {
	if d.got.IsZero() {
		return 0
	}
	return uint64(max(0, d.lower(d.at)))
}
