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
	// driftShift bounds the drift between two clocks: 2^-10, about twice the
	// 500 ppm at which NTP slews a clock.
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

// lower is a lower bound of the server's time at t, in µs. It assumes only that
// the server read its clock before its answer arrived, and that the clocks drift
// apart by no more than driftShift says. The bound needs no symmetric round trip.
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

// usable reports whether the reading is recent and exact enough for operations
// that have to be carried out within timeout.
func (r *reading) usable(now time.Time, timeout time.Duration) bool {
	return !r.got.IsZero() && now.Sub(r.got) <= readingAge*timeout && r.got.Sub(r.asked) <= timeout/2
}

// clocks keeps the best reading of each server's clock, by address; the address
// is empty unless there is a cluster. It is safe for concurrent use.
type clocks struct {
	mu   sync.Mutex
	best map[string]reading // guarded by mu
}

func (c *clocks) get(addr string) reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.best[addr]
}

// observe keeps a reading if it gives a higher bound than the one before, or
// contradicts it: then the clock has stepped back or is another server's.
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

// readClock sets the clock by which the operations of a call are dated, if any of
// them need it: from a recent answer, or else by asking the server, which costs a
// round trip. Without it the operations must not be sent, as the script could not
// tell whether they are late.
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

// observe reads the server's clock from the answer to a call. In a cluster the
// address of the server is known only if the call was dated.
func (d *driver) observe(c *call, micros int64) {
	if c.addr != "" || d.client.cluster == nil && c.to == "" {
		d.clocks.observe(c.addr, reading{micros: micros, asked: c.sent, got: c.got})
	}
}

// serverOf returns the server that a call goes to and its address, which is empty
// unless there is a cluster.
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

// opTimes dates the operations of a command by a reading of the server's clock.
// The zero value dates none of them.
type opTimes struct {
	reading

	at time.Time // when the command is sent
}

// date is a lower bound of the server's time at op.At, 0 if that is not known.
func (d *opTimes) date(op *bucket.Op) uint64 {
	if d.got.IsZero() || !remote.Dated(op) {
		return 0
	}
	return uint64(max(0, d.lower(op.At)))
}

// sent is a lower bound of the server's time when the command is sent. If the
// script finds its clock before that, the clock has stepped back.
func (d *opTimes) sent() uint64 {
	if d.got.IsZero() {
		return 0
	}
	return uint64(max(0, d.lower(d.at)))
}
