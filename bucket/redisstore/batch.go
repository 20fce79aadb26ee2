package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/redis/go-redis/v9"
)

// rounds bounds how often a command is sent that Redis says it has not
// carried out: once, to where it was redirected, and after loading the script
// there.
const rounds = 3

// call is one command on its way: several operations, but in a cluster, where
// their keys are anywhere.
type call struct {
	ops []*bucket.Op
	cmd *redis.SliceCmd
	to  string // address of a redirection, or empty
	ask bool   // the redirection is for this command only

	clock     dating // by the server it goes to; zero if nobody needs it
	addr      string // of that server, see home
	undated   error  // why that could not be read: nothing was sent
	sent, got time.Time
}

func (c *call) err() error {
	if c.undated != nil {
		return c.undated
	}
	return c.cmd.Err()
}

// batch is the working memory of one worker.
type batch struct {
	ops   []*bucket.Op
	calls []call
	args  *arguments
	err   *Error // of the last failed operation
	bad   int    // operations that failed
}

func newBatch() *batch {
	return &batch{ops: make([]*bucket.Op, 0, maxBatch), args: newArguments()}
}

// run sends the batch and calls Done of every operation exactly once.
func (s *Store) run(b *batch) {
	var report func(*Error)
	ok := !s.aborted.Load()
	if ok {
		report, ok = s.breaker.allow()
	}
	if !ok {
		for _, op := range b.ops {
			s.counters.away.Add(1)
			op.Done(op, bucket.Reply{}, bucket.ErrAway)
		}
		return
	}
	n := len(b.ops)
	start := time.Now()
	s.exec(context.Background(), b)
	took := time.Since(start)
	s.counters.pipelines.Add(1)
	s.counters.observe(took)
	s.answered(took, n, b.bad)
	switch {
	case 2*b.bad >= n && b.bad > 0: // half: one shard of a cluster is not all of Redis
		report(b.err)
	case took > s.config.Timeout:
		report(errSlow)
	default:
		report(nil)
	}
}

// exec sends b.ops in one pipeline, and again, once per round, those that
// Redis did not carry out. Anything else is final: whether a take whose answer
// was lost has been carried out is unknown, and a second one would charge twice.
func (s *Store) exec(ctx context.Context, b *batch) {
	ctx, cancel := context.WithTimeout(ctx, s.config.batchTimeout())
	defer cancel()
	b.calls, b.err, b.bad = b.calls[:0], nil, 0
	sound := b.ops[:0]
	for _, op := range b.ops {
		if op.Algorithm != bucket.LeakyBucket {
			s.fail(b, op, &Error{Class: Unsupported, Err: bucket.ErrAlgorithm})
			continue
		}
		if op.Kind != bucket.Reset && !op.Shape.Portable() {
			s.fail(b, op, fmt.Errorf("limit of %d ticks: want at most 2^52, use a smaller burst", op.Shape.Limit()))
			continue
		}
		sound = append(sound, op)
	}
	if s.client.cluster != nil || s.scattered.Load() {
		b.calls = single(b.calls, sound)
	} else if len(sound) > 0 {
		b.calls = append(b.calls, call{ops: sound})
	}
	pending := b.calls
	for round := 1; len(pending) > 0; round++ {
		s.send(ctx, b, pending)
		last := round == rounds || ctx.Err() != nil
		pending = s.collect(ctx, b, pending, last)
	}
}

// single appends a call for each operation.
func single(calls []call, ops []*bucket.Op) []call {
	for i := range ops {
		calls = append(calls, call{ops: ops[i : i+1]})
	}
	return calls
}

// send does one round trip to each address that calls go to.
func (s *Store) send(ctx context.Context, b *batch, calls []call) {
	s.counters.commands.Add(uint64(len(calls)))
	b.args.reset()
	for len(calls) > 0 {
		n := 1
		for n < len(calls) && calls[n].to == calls[0].to {
			n++
		}
		s.sendTo(ctx, b, calls[:n])
		calls = calls[n:]
	}
}

func (s *Store) sendTo(ctx context.Context, b *batch, calls []call) {
	pipe := s.server(calls[0].to).Pipeline()
	for i := range calls {
		c := &calls[i]
		c.cmd = nil
		if c.undated = s.readClock(ctx, c); c.undated != nil {
			continue
		}
		c.cmd = redis.NewSliceCmd(ctx, b.args.command(s.script, s.config.KeyPrefix, c.ops, &c.clock, s.extraArgs())...)
		if c.ask {
			_ = pipe.Process(ctx, redis.NewStatusCmd(ctx, "asking"))
		}
		_ = pipe.Process(ctx, c.cmd)
	}
	sent := s.now()
	_, _ = pipe.Exec(ctx) // each command has its own error
	got := s.now()
	for i := range calls {
		calls[i].sent, calls[i].got = sent, got
	}
}

func (s *Store) server(addr string) pipeliner {
	if addr == "" {
		return s.client
	}
	return s.client.at(addr)
}

// collect finishes the calls that have their final outcome and returns those
// to send again.
func (s *Store) collect(ctx context.Context, b *batch, calls []call, last bool) []call {
	var again []call
	broken := false
	for _, c := range calls {
		err := c.err()
		if err == nil {
			s.finish(b, &c)
			continue
		}
		broken = broken || Classify(err).away()
		before := len(again)
		if !last {
			again = s.resend(again, c)
		}
		if len(again) == before {
			s.failAll(b, &c, err)
		}
	}
	if broken {
		s.clocks.forget()
		s.client.reload(ctx)
	}
	again = s.loadMissing(ctx, b, again)
	s.counters.resent.Add(uint64(len(again)))
	return again
}

// resend appends what is to be sent again of a call that failed: all of it if
// Redis says that it has done nothing, and why.
func (s *Store) resend(calls []call, c call) []call {
	err := c.err()
	addr, ask, redirected := redirection(err)
	switch class := Classify(err); {
	case redirected && s.client.cluster != nil:
		c.to, c.ask = addr, ask
	case class == NoScript:
	case class == CrossSlot && len(c.ops) > 1:
		// A cluster behind one address: one key at a time from now on.
		s.scattered.Store(true)
		return single(calls, c.ops)
	default:
		return calls
	}
	return append(calls, c)
}

// loadMissing loads the script where it was missing. It fails the calls to
// servers on which that cannot be done and returns the others.
func (s *Store) loadMissing(ctx context.Context, b *batch, calls []call) []call {
	var outcomes map[string]error // by address
	rest := calls[:0]
	for _, c := range calls {
		if c.cmd == nil || Classify(c.err()) != NoScript {
			rest = append(rest, c)
			continue
		}
		err, tried := outcomes[c.to]
		if !tried {
			if outcomes == nil {
				outcomes = make(map[string]error)
			}
			err = s.load(ctx, c.to)
			outcomes[c.to] = err
		}
		if err != nil {
			s.failAll(b, &c, err)
			continue
		}
		rest = append(rest, c)
	}
	return rest
}

// load makes the script known to one server, or to all primaries. SCRIPT LOAD
// rather than EVAL: since 7.4 Redis forgets scripts that came by EVAL.
func (s *Store) load(ctx context.Context, addr string) error {
	s.counters.loads.Add(1)
	if addr != "" {
		return s.loadInto(ctx, s.client.at(addr))
	}
	return s.client.eachPrimary(ctx, func(ctx context.Context, c *redis.Client) error { return s.loadInto(ctx, c) })
}

func (s *Store) loadInto(ctx context.Context, c pipeliner) error {
	pipe := c.Pipeline()
	pipe.ScriptLoad(ctx, s.script.source)
	s.counters.commands.Add(1)
	_, err := pipe.Exec(ctx)
	return err
}

var errAnswer = &Error{Class: Protocol, Err: errors.New("unexpected reply of the script")}

// finish hands out the answer to a call.
func (s *Store) finish(b *batch, c *call) {
	a, ok := parseAnswer(c.cmd.Val(), len(c.ops))
	if !ok {
		s.failAll(b, c, errAnswer)
		return
	}
	s.counters.offsetUs.Store(a.now - time.Now().UnixMicro())
	s.observe(c, a.now)
	for i, op := range c.ops {
		r, err := a.next(i)
		if err != nil {
			s.fail(b, op, err)
			continue
		}
		op.Done(op, r, nil)
	}
}

// failAll fails a call. Whoever is not told to be a client of a cluster must
// not be sent on by one.
func (s *Store) failAll(b *batch, c *call, err error) {
	if _, _, redirected := redirection(err); redirected && s.client.cluster == nil {
		err = &Error{Class: CrossSlot, Err: err}
	}
	for _, op := range c.ops {
		s.fail(b, op, err)
	}
}

// fail tells the operation that it failed. It classifies and counts, and
// alarms where waiting does not help.
func (s *Store) fail(b *batch, op *bucket.Op, err error) {
	e, ok := err.(*Error) //nolint:errorlint // wrapped ones are classified anew
	if !ok {
		e = &Error{Class: Classify(err), Err: err}
	}
	s.counters.errors[e.Class].Add(1)
	if e.Class.misconfigured() {
		s.alarm.raise(e, s.config.KeyPrefix+op.Key)
	}
	b.err = e
	b.bad++
	op.Done(op, bucket.Reply{}, e)
}
