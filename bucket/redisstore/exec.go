package redisstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/redis/go-redis/v9"
)

// maxSends is the maximum number of times that a command is sent if Redis says that it has
// not carried it out: at first, to where it is redirected, and after the script has been
// loaded there.
const maxSends = 3

// call is one command on its way. It has several operations, or one in a cluster,
// where each key may be on another node.
type call struct {
	ops []*bucket.Op
	cmd *redis.SliceCmd
	to  string // address of a redirection, or empty
	ask bool   // the redirection is for this command only

	dating    remote.Dating // by the clock of the server it goes to; zero if no operation is dated
	addr      string        // of that server, see serverOf
	clockErr  error         // why the clock could not be read; then nothing was sent
	sent, got time.Time
}

func (c *call) err() error {
	if c.clockErr != nil || c.cmd == nil { // no command: it has not been sent yet
		return c.clockErr
	}
	return c.cmd.Err()
}

// batch is the working memory of one Exec.
type batch struct {
	ops    []*bucket.Op
	calls  []call
	args   *arguments
	settle remote.Settle
}

func newBatch() *batch {
	return &batch{ops: make([]*bucket.Op, 0, remote.MaxBatch), args: newArguments()}
}

// Exec implements [remote.Driver]. It sends the operations in one pipeline, then
// resends those that Redis says it has not carried out. Any other failure is
// final: a take whose answer was lost may have been carried out, and a second
// one would charge twice.
func (d *driver) Exec(ctx context.Context, ops []*bucket.Op, settle remote.Settle) {
	ctx, cancel := context.WithTimeout(ctx, d.config.batchTimeout())
	defer cancel()
	b := d.batches.Get().(*batch) // ours
	defer d.batches.Put(b)
	b.ops, b.calls, b.settle = b.ops[:0], b.calls[:0], settle
	for _, op := range ops {
		switch {
		case !d.Runs(op.Algorithm):
			d.fail(b, op, bucket.ErrAlgorithm)
		case op.Kind != bucket.Reset && !op.Shape.Portable():
			d.fail(b, op, remote.Unportable(&op.Shape))
		default:
			b.ops = append(b.ops, op)
		}
	}
	if d.client.cluster != nil || d.oneKeyEach.Load() {
		b.calls = oneEach(b.calls, b.ops)
	} else if len(b.ops) > 0 {
		b.calls = append(b.calls, call{ops: b.ops})
	}
	pending := b.calls
	for round := 1; len(pending) > 0; round++ {
		d.send(ctx, b, pending)
		last := round == maxSends || ctx.Err() != nil
		pending = d.collect(ctx, b, pending, last)
	}
}

// oneEach appends a call for each operation.
func oneEach(calls []call, ops []*bucket.Op) []call {
	for i := range ops {
		calls = append(calls, call{ops: ops[i : i+1]})
	}
	return calls
}

// send makes one round trip to each run of calls to the same address.
func (d *driver) send(ctx context.Context, b *batch, calls []call) {
	d.counters.commands.Add(uint64(len(calls)))
	b.args.reset()
	for len(calls) > 0 {
		n := 1
		for n < len(calls) && calls[n].to == calls[0].to {
			n++
		}
		d.sendTo(ctx, b, calls[:n])
		calls = calls[n:]
	}
}

func (d *driver) sendTo(ctx context.Context, b *batch, calls []call) {
	pipe := d.client.node(calls[0].to).Pipeline()
	for i := range calls {
		c := &calls[i]
		c.cmd = nil
		if c.clockErr = d.readClock(ctx, c); c.clockErr != nil {
			continue
		}
		c.cmd = redis.NewSliceCmd(ctx, b.args.command(d.script, d.config.KeyPrefix, c.ops, &c.dating, d.extraArgs())...)
		if c.ask {
			_ = pipe.Process(ctx, redis.NewStatusCmd(ctx, "asking"))
		}
		_ = pipe.Process(ctx, c.cmd)
	}
	sent := d.now()
	_, err := pipe.Exec(ctx)
	got := d.now()
	for i := range calls {
		c := &calls[i]
		c.sent, c.got = sent, got
		if err != nil && c.cmd != nil && c.cmd.Err() == nil && c.cmd.Val() == nil { // no connection could be set up
			c.cmd.SetErr(err)
		}
	}
}

// collect finishes the calls that have their final outcome and returns those
// to send again.
func (d *driver) collect(ctx context.Context, b *batch, calls []call, last bool) []call {
	var again []call
	broken := false
	for _, c := range calls {
		err := c.err()
		if err == nil {
			d.finish(b, &c)
			continue
		}
		broken = broken || errors.Is(asError(err), bucket.ErrAway)
		var retry []call
		if !last {
			retry = d.resend(c)
		}
		if len(retry) == 0 {
			d.failAll(b, &c, err)
		}
		again = append(again, retry...)
	}
	if broken {
		d.clocks.Forget()
		d.client.reload(ctx)
	}
	if len(again) > 0 {
		again = d.loadMissing(ctx, b, again)
		d.counters.resent.Add(uint64(len(again)))
	}
	return again
}

// resend returns the calls that replace one that failed: none, unless Redis says that it
// has not carried it out, and why.
func (d *driver) resend(c call) []call {
	err := c.err()
	addr, ask, redirected := redirection(err)
	switch class := classify(err); {
	case redirected && d.client.cluster != nil:
		c.to, c.ask = addr, ask
	case class == classNoScript:
	case class == classCrossSlot && len(c.ops) > 1:
		// This is a cluster behind one address: send one key per command from now on.
		d.oneKeyEach.Store(true)
		return oneEach(nil, c.ops)
	default:
		return nil
	}
	return []call{c}
}

// loadMissing loads the script where it was missing, once for each address. It
// fails the calls to servers on which that cannot be done and returns the others.
func (d *driver) loadMissing(ctx context.Context, b *batch, calls []call) []call {
	outcomes := make(map[string]error, 1) // by address
	return slices.DeleteFunc(calls, func(c call) bool {
		if classify(c.err()) != classNoScript {
			return false
		}
		err, tried := outcomes[c.to]
		if !tried {
			err = d.load(ctx, c.to)
			outcomes[c.to] = err
		}
		if err != nil {
			d.failAll(b, &c, err)
		}
		return err != nil
	})
}

// load loads the script into one server, or into all primaries. It does not rely
// on EVAL, as Redis 7.4 and later evicts scripts that were loaded that way.
func (d *driver) load(ctx context.Context, addr string) error {
	d.counters.loads.Add(1)
	if addr != "" {
		return d.loadInto(ctx, d.client.node(addr))
	}
	return d.client.eachPrimary(ctx, func(ctx context.Context, c *redis.Client) error { return d.loadInto(ctx, c) })
}

func (d *driver) loadInto(ctx context.Context, c pipeliner) error {
	pipe := c.Pipeline()
	pipe.ScriptLoad(ctx, d.script.source)
	d.counters.commands.Add(1)
	_, err := pipe.Exec(ctx)
	return err
}

var errAnswer = newError(classProtocol, errors.New("unexpected reply of the script"))

// finish settles the operations of a call that was answered.
func (d *driver) finish(b *batch, c *call) {
	a, ok := parseAnswer(c.cmd.Val(), len(c.ops))
	if !ok {
		d.failAll(b, c, errAnswer)
		return
	}
	d.counters.offsetUs.Store(a.now - time.Now().UnixMicro())
	d.observe(c, a.now)
	for i, op := range c.ops {
		r, err := a.next(i)
		if err != nil {
			d.fail(b, op, err)
			continue
		}
		b.settle(op, r, nil)
	}
}

// failAll fails all operations of a call. A redirection without a cluster in the
// configuration means that the server belongs to one: the fix is to say so.
func (d *driver) failAll(b *batch, c *call, err error) {
	if _, _, redirected := redirection(err); redirected && d.client.cluster == nil {
		err = newError(classCrossSlot, err)
	}
	for _, op := range c.ops {
		d.fail(b, op, err)
	}
}

// fail settles an operation that failed.
func (d *driver) fail(b *batch, op *bucket.Op, err error) {
	e, ok := err.(*remote.Error) //nolint:errorlint // wrapped ones are classified again
	if !ok {
		e = newError(classify(err), err)
		if e.Class == classWrongType || e.Class == classCorrupt {
			e.Key = d.config.KeyPrefix + op.Key
		}
	}
	b.settle(op, bucket.Reply{}, e)
}

// extraArgs passes the time to the script of tests, which does not read Redis' clock.
func (d *driver) extraArgs() []any {
	if d.clock == nil {
		return nil
	}
	now := d.clock()
	return []any{now / 1_000_000, now % 1_000_000}
}
