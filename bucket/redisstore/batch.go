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

// call is one operation on its way.
type call struct {
	op  *bucket.Op
	cmd *redis.IntSliceCmd
	to  string // address of a redirection, or empty
	ask bool   // the redirection is for this command only
}

// batch is the working memory of one worker.
type batch struct {
	ops   []*bucket.Op
	calls []call
	args  []any
	buf   []byte // what args point to
	err   *Error // of the last failed operation
	bad   int    // operations that failed
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
	for _, op := range b.ops {
		if !op.Shape.Portable() {
			s.finish(b, op, nil, fmt.Errorf("limit of %d ticks: want at most 2^52, use a smaller burst", op.Shape.Limit()))
			continue
		}
		b.calls = append(b.calls, call{op: op})
	}
	pending := b.calls
	for round := 1; len(pending) > 0; round++ {
		s.send(ctx, b, pending)
		last := round == rounds || ctx.Err() != nil
		pending = s.collect(ctx, b, pending, last)
	}
}

// send does one round trip to each address that calls go to.
func (s *Store) send(ctx context.Context, b *batch, calls []call) {
	s.counters.commands.Add(uint64(len(calls)))
	b.args, b.buf = b.args[:0], b.buf[:0]
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
		from := len(b.args)
		b.args, b.buf = s.scripts.appendArgs(b.args, b.buf, s.config.KeyPrefix+c.op.Key, c.op, s.extraArgs())
		c.cmd = redis.NewIntSliceCmd(ctx, b.args[from:len(b.args):len(b.args)]...)
		if c.ask {
			_ = pipe.Process(ctx, redis.NewStatusCmd(ctx, "asking"))
		}
		_ = pipe.Process(ctx, c.cmd)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
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
	again := calls[:0]
	var unknown map[string]bool // servers that lack the scripts
	broken := false
	for _, c := range calls {
		err := c.cmd.Err()
		if err == nil {
			s.finish(b, c.op, c.cmd.Val(), nil)
			continue
		}
		class := Classify(err)
		broken = broken || class.away()
		if !last {
			if addr, ask, ok := redirection(err); ok && s.client.cluster != nil {
				c.to, c.ask = addr, ask
				again = append(again, c)
				continue
			}
			if class == NoScript {
				if unknown == nil {
					unknown = make(map[string]bool)
				}
				unknown[c.to] = true
				again = append(again, c)
				continue
			}
		}
		s.finish(b, c.op, nil, err)
	}
	for addr := range unknown {
		if err := s.load(ctx, addr); err != nil {
			again = s.unloadable(b, again, addr, err)
		}
	}
	if broken {
		s.client.reload(ctx)
	}
	s.counters.resent.Add(uint64(len(again)))
	return again
}

// unloadable finishes the calls to a server on which the scripts cannot be
// loaded.
func (s *Store) unloadable(b *batch, calls []call, addr string, err error) []call {
	rest := calls[:0]
	for _, c := range calls {
		if c.to == addr && Classify(c.cmd.Err()) == NoScript {
			s.finish(b, c.op, nil, err)
			continue
		}
		rest = append(rest, c)
	}
	return rest
}

// load makes the scripts known to one server, or to all primaries. SCRIPT LOAD
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
	for i := range s.scripts {
		pipe.ScriptLoad(ctx, s.scripts[i].source)
	}
	s.counters.commands.Add(uint64(len(s.scripts)))
	_, err := pipe.Exec(ctx)
	return err
}

var errReply = errors.New("unexpected reply of a script")

// finish calls Done, once.
func (s *Store) finish(b *batch, op *bucket.Op, val []int64, err error) {
	if err == nil && (len(val) != 3 || val[0] < 0 || val[1] < 0) {
		err = &Error{Class: Protocol, Err: errReply}
	}
	if err != nil {
		e := s.failed(op, err)
		b.err = e
		b.bad++
		op.Done(op, bucket.Reply{}, e)
		return
	}
	s.counters.offsetUs.Store(val[2] - time.Now().UnixMicro())
	op.Done(op, bucket.Reply{Granted: uint64(val[0]), Level: uint64(val[1])}, nil)
}

// failed classifies and counts, and alarms where waiting does not help.
func (s *Store) failed(op *bucket.Op, err error) *Error {
	e, ok := err.(*Error) //nolint:errorlint // wrapped ones are classified anew
	if !ok {
		e = &Error{Class: Classify(err), Err: err}
	}
	s.counters.errors[e.Class].Add(1)
	if e.Class.misconfigured() {
		s.alarm.raise(e, s.config.KeyPrefix+op.Key)
	}
	return e
}
