package redisstore

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/redis/go-redis/v9"
)

// OpenHits is [Open] for plain numbers, as other programs count in Redis: a take adds
// [bucket.Op.Cost] to the number at Op.Key, which no prefix precedes, by INCRBY, and has it
// expire after the period of Op.Shape and a random time of up to jitter, by EXPIRE. It is
// granted whatever the number is, which [bucket.Reply] has as Level. Other kinds of
// operations, and other algorithms than fixed windows, fail.
//
// An operation whose answer is lost may have been carried out, and is not sent again.
func OpenHits(ctx context.Context, c Config, jitter time.Duration) (*remote.Store, error) {
	d, err := newDriver(c, production)
	if err != nil {
		return nil, err
	}
	d.counts = true
	h := &hitDriver{driver: d, jitter: jitter}
	return d.start(ctx, h, h.check(ctx))
}

// hitDriver is the [remote.Driver] of plain numbers.
type hitDriver struct {
	*driver

	jitter time.Duration
}

// Runs implements [remote.Driver].
func (*hitDriver) Runs(a bucket.Algorithm) bool { return a == bucket.FixedWindow }

// hit is one operation on its way.
type hit struct {
	op     *bucket.Op
	count  *redis.IntCmd
	expire *redis.BoolCmd
	to     string // address of a redirection, or empty
	ask    bool   // the redirection is for these commands only
}

// Exec implements [remote.Driver].
func (d *hitDriver) Exec(ctx context.Context, ops []*bucket.Op, settle remote.Settle) {
	ctx, cancel := context.WithTimeout(ctx, d.config.batchTimeout())
	defer cancel()
	pending := make([]hit, 0, len(ops))
	for _, op := range ops {
		if op.Kind != bucket.Take || op.Algorithm != bucket.FixedWindow {
			settle(op, bucket.Reply{}, bucket.ErrAlgorithm)
			continue
		}
		pending = append(pending, hit{op: op})
	}
	for round := 1; len(pending) > 0; round++ {
		d.send(ctx, pending)
		pending = d.settle(ctx, pending, settle, round == maxSends || ctx.Err() != nil)
	}
}

// send makes one round trip to each run of operations for the same address.
func (d *hitDriver) send(ctx context.Context, hits []hit) {
	for len(hits) > 0 {
		n := 1
		for n < len(hits) && hits[n].to == hits[0].to {
			n++
		}
		pipe := d.client.node(hits[0].to).Pipeline()
		for i := range hits[:n] {
			h := &hits[i]
			h.count = redis.NewIntCmd(ctx, "incrby", h.op.Key, h.op.Cost)
			h.expire = redis.NewBoolCmd(ctx, "expire", h.op.Key, d.lifetime(h.op))
			for _, cmd := range []redis.Cmder{h.count, h.expire} {
				if h.ask {
					_ = pipe.Process(ctx, redis.NewStatusCmd(ctx, "asking"))
				}
				_ = pipe.Process(ctx, cmd)
			}
		}
		d.counters.commands.Add(uint64(2 * n))
		if _, err := pipe.Exec(ctx); err != nil {
			for i := range hits[:n] { // if no connection could be set up, commands know of no error
				if h := &hits[i]; h.count.Err() == nil && h.count.Val() == 0 && h.expire.Err() == nil && !h.expire.Val() {
					h.count.SetErr(err)
				}
			}
		}
		hits = hits[n:]
	}
}

// lifetime is in seconds.
func (d *hitDriver) lifetime(op *bucket.Op) int64 {
	seconds := int64(op.Shape.Period() / time.Second)
	if most := int64(d.jitter / time.Second); most > 0 {
		seconds += rand.Int64N(most)
	}
	return seconds
}

// overflows is in what Redis says of a number that is full. That is an answer: as failures,
// hits on one counter could make the store count as away for all.
const overflows = "would overflow"

// settle tells outcomes, and returns the operations to send again.
func (d *hitDriver) settle(ctx context.Context, hits []hit, settle remote.Settle, last bool) (again []hit) {
	broken := false
	for _, h := range hits {
		err := cmp.Or(h.count.Err(), h.expire.Err())
		if err != nil && strings.Contains(err.Error(), overflows) {
			settle(h.op, bucket.Reply{Granted: 1, Level: math.MaxInt64}, nil)
			continue
		}
		addr, ask, redirected := redirection(h.count.Err())
		switch {
		case err == nil && h.count.Val() >= 0:
			settle(h.op, bucket.Reply{Granted: 1, Level: uint64(h.count.Val())}, nil)
		case err == nil:
			settle(h.op, bucket.Reply{}, newError(classCorrupt, errors.New("a count of "+strconv.FormatInt(h.count.Val(), 10))))
		case redirected && !last && d.client.cluster != nil:
			again = append(again, hit{op: h.op, to: addr, ask: ask})
		case redirected && d.client.cluster == nil:
			settle(h.op, bucket.Reply{}, newError(classCrossSlot, err))
		default:
			e := asError(err)
			if broken = broken || errors.Is(e, bucket.ErrAway); e.Class == classWrongType {
				e.Key = h.op.Key
			}
			settle(h.op, bucket.Reply{}, e)
		}
	}
	if broken || len(again) > 0 {
		d.client.reload(ctx)
	}
	d.counters.resent.Add(uint64(len(again)))
	return again
}

// hitProbe is no key that anybody counts by.
const hitProbe = "fastlimit!probe"

var probeWindow, _ = bucket.NewWindow(1, time.Second)

// check reports whether Redis answers and counts.
func (d *hitDriver) check(ctx context.Context) error {
	return d.checkBy(ctx, func(ctx context.Context, c *redis.Client) error { return c.Ping(ctx).Err() }, d.Exec, probeHit)
}

// Probe implements [remote.Driver].
func (d *hitDriver) Probe(ctx context.Context) error { return d.usable(ctx, d.Exec, probeHit) }

// probeHit adds nothing, which needs the same privileges as any hit.
func probeHit(i int) *bucket.Op {
	return &bucket.Op{Kind: bucket.Take, Algorithm: bucket.FixedWindow, Key: hitProbe + strconv.Itoa(i), Shape: probeWindow, Count: 1}
}
