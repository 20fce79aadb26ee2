package engine

import (
	"context"
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/step"
	"github.com/fastlimit/fastlimit/limit"
)

// storeWorld is what can happen to one client: its requests, and how often each kind
// of event may occur. A unit leaks in a second, J is 5 ms.
type storeWorld struct {
	name   string
	nodes  int
	burst  uint64
	asks   []ask
	policy limit.OnFailure

	patient bool // the client sends a request only when it conforms
	doubt   bool // the nodes are in doubt from the start: all takes carry floors

	hangUps, failures, halves, drains, resets, refunds, outages, losses int

	steps   int // that are enumerated, 0: all; what is left then is finished in order
	samples int // further schedules, at random
}

type ask struct {
	node int
	cost uint64
}

// event is one step of a schedule.
type event struct {
	kind eventKind
	at   int // a request, an operation or a node
	node int // whose state it touches, or everybody
}

type eventKind int

const (
	arrive  eventKind = iota
	hangUp            // a request that waits
	deliver           // the answer to an operation that was carried out
	execute           // an operation, whether anybody still waits for its answer
	fail              // an operation is given up; it may still be carried out
	half              // J/2 passes
	drain             // the bucket drains
	reset
	refund // the last request that the node admitted
	outage // the store refuses, or takes again
	lose   // the store forgets
)

var eventNames = [...]string{"arrive", "hangUp", "deliver", "execute", "fail", "half", "drain", "reset", "refund", "outage", "lose"}

func (e event) String() string { return fmt.Sprintf("%s %d", eventNames[e.kind], e.at) }

const (
	everybody = -1
	storeOnly = -2
)

// independent reports whether the order of two neighbouring events does not matter.
func independent(a, b event) bool {
	if a.node == everybody || b.node == everybody || a.kind == arrive && b.kind == arrive {
		return false
	}
	if a.kind == execute && b.kind == execute || a.kind == lose || b.kind == lose {
		return false
	}
	if a.kind == execute || b.kind == execute { // the store, against a node
		return a.node != b.node || a.kind != deliver && a.kind != fail && b.kind != deliver && b.kind != fail
	}
	return a.node != b.node
}

// modelOp is an operation of a store that acts exactly when the test says so.
type modelOp struct {
	node           int
	op             *bucket.Op // until done
	request        step.Request
	key            string
	done, executed bool
	result         step.Result
}

// request is one of the client's.
type modelRequest struct {
	ask
	at       time.Duration
	cancel   context.CancelFunc
	outcome  chan outcome
	returned bool
	hung     bool
	checked  bool
	refunded bool
	since    int  // requests that arrived before it was refunded
	forgiven bool // it was on its way when Reset was called
	wiped    bool // it had arrived when the store was emptied
	verdict  limit.Decision
	decided  time.Duration
}

// play is one schedule as it unfolds.
type play struct {
	*storeWorld
	rules []*Rule
	key   string
	start time.Time

	requests []*modelRequest
	ops      []*modelOp
	state    step.State
	away     bool
	left     [len(eventNames)]int // of each kind
	done     []event
	wrong    string // the first thing that is

	resetBy   int           // the node, -1 for none that counts
	resetFrom int           // requests that arrived before
	resetAt   time.Duration // of the last one, -1 for none
	lossy     bool          // what was to be given back may be lost, or taken again
	failed    bool          // an operation was
	passed    bool          // time has passed
}

// modelStore is the store as one node sees it.
type modelStore struct {
	node int
	play *play
}

func (s *modelStore) Close(context.Context) error { return nil }

func (*modelStore) Runs(bucket.Algorithm) bool { return true }

func (s *modelStore) Submit(op *bucket.Op) error {
	p := s.play
	for _, o := range p.ops {
		if o.node == s.node && !o.done {
			p.fault("two operations of node %d at once: %+v and %+v", s.node, o.request, op)
		}
	}
	if p.away {
		p.failed = true
		p.lossy = p.lossy || amends(op.Kind, op.Back)
		return bucket.ErrAway
	}
	date := p.storeTime() - uint64(time.Since(op.At)/time.Microsecond)
	p.ops = append(p.ops, &modelOp{node: s.node, op: op, key: op.Key, request: step.NewRequest(op, date)})
	return nil
}

// storeTime is in µs and has nothing to do with the nodes' clocks.
func (p *play) storeTime() uint64 { return 1e9 + uint64(p.now()/time.Microsecond) }

func (p *play) now() time.Duration { return time.Since(p.start) }

// amends reports whether an operation lowers a bucket.
func amends(k bucket.Kind, back uint64) bool {
	return k == bucket.Refund || k == bucket.Reset || back > 0
}

func (p *play) fault(format string, args ...any) {
	if p.wrong == "" {
		p.wrong = fmt.Sprintf(format, args...)
	}
}

// enabled lists what can happen next, in a fixed order.
func (p *play) enabled() []event {
	var es []event
	if i := len(p.requests); i < len(p.asks) && (!p.patient || p.conforms(p.asks[i])) {
		es = append(es, event{arrive, i, p.asks[i].node})
	}
	for i, r := range p.requests {
		if !r.returned && p.left[hangUp] > 0 {
			es = append(es, event{hangUp, i, r.node})
		}
	}
	for i, o := range p.ops {
		if o.executed && !o.done {
			es = append(es, event{deliver, i, o.node})
		}
		if !o.executed {
			es = append(es, event{execute, i, o.node})
		}
		if !o.done && p.left[fail] > 0 {
			es = append(es, event{fail, i, o.node})
		}
	}
	for _, kind := range [...]eventKind{half, drain, outage} {
		if p.left[kind] > 0 {
			es = append(es, event{kind, 0, everybody})
		}
	}
	if p.left[lose] > 0 && p.state != (step.State{}) {
		es = append(es, event{lose, 0, storeOnly})
	}
	for n := range p.nodes {
		if p.left[reset] > 0 && len(p.requests) > 0 {
			es = append(es, event{reset, n, everybody})
		}
		if p.left[refund] > 0 && p.refundable(n) != nil {
			es = append(es, event{refund, n, n})
		}
	}
	return es
}

func (p *play) refundable(node int) *modelRequest {
	// What was taken before a reset is not there to be given back.
	from := 0
	if p.resetAt >= 0 {
		from = p.resetFrom
	}
	for i := len(p.requests) - 1; i >= from; i-- {
		if r := p.requests[i]; r.node == node && r.returned && r.verdict.Allowed && !r.refunded && !r.forgiven {
			return r
		}
	}
	return nil
}

// do lets an event happen and everything that follows from it.
func (p *play) do(e event) {
	// Nothing else is at the same instant, or the order would be the runtime's.
	time.Sleep(time.Microsecond)
	p.done = append(p.done, e)
	p.left[e.kind]--
	rule := func() *Rule { return p.rules[e.at] }
	switch e.kind {
	case arrive:
		p.arrive(p.asks[e.at])
	case hangUp:
		r := p.requests[e.at]
		r.hung = true
		r.cancel()
	case execute:
		p.execute(p.ops[e.at])
	case deliver:
		o := p.ops[e.at]
		p.answer(o, bucket.Reply{Granted: o.result.Granted, Level: o.result.Level}, o.result.Late)
	case fail:
		o := p.ops[e.at]
		p.failed = true
		p.lossy = p.lossy || !o.executed || amends(o.request.Kind, o.request.Back)
		p.answer(o, bucket.Reply{}, true)
	case half:
		p.passed = true
		time.Sleep(limit.DefaultStoreTimeout / 2)
	case drain:
		p.passed = true
		time.Sleep(time.Duration(p.burst) * time.Second)
	case outage:
		p.away = !p.away
	case lose:
		p.lossy = true
		p.state = step.State{}
	case reset:
		p.noteReset(e.at)
		rule().Reset(rule().BytesKey([]byte(p.key)))
	case refund:
		r := p.refundable(e.at)
		r.refunded, r.since = true, len(p.requests)
		rule().Refund(rule().BytesKey([]byte(p.key)), r.cost)
	}
	synctest.Wait()
	p.collect()
	p.forgive()
	p.check()
}

// forgive marks requests that hung up and whose grants are given back by now.
func (p *play) forgive() {
	for _, r := range p.requests {
		busy := slices.ContainsFunc(p.ops, func(o *modelOp) bool { return o.node == r.node && !o.done })
		if r.hung && r.returned && !r.refunded && !busy && !p.failed {
			r.refunded, r.since = true, len(p.requests)
		}
	}
}

func (p *play) arrive(a ask) {
	ctx, cancel := context.WithCancel(context.Background())
	r := &modelRequest{ask: a, at: p.now(), cancel: cancel, outcome: make(chan outcome, 1)}
	p.requests = append(p.requests, r)
	rule := p.rules[a.node]
	go func() {
		d := rule.Take(ctx, rule.BytesKey([]byte(p.key)), a.cost)
		r.outcome <- outcome{d, p.now()}
	}()
}

// outcome is what a request got, and when.
type outcome struct {
	verdict limit.Decision
	at      time.Duration
}

// collect takes the outcomes of requests that have returned.
func (p *play) collect() {
	for _, r := range p.requests {
		select {
		case o := <-r.outcome:
			r.verdict, r.decided, r.returned = o.verdict, o.at, true
		default:
		}
	}
}

func (p *play) execute(o *modelOp) {
	after, res := step.Apply(p.state, p.storeTime(), o.request)
	o.executed, o.result = true, res
	if o.request.Kind == bucket.Reset {
		for _, r := range p.requests {
			r.wiped = true
		}
	}
	if res.Write {
		p.state = after
	}
	if res.Late {
		p.failed = true
		p.lossy = p.lossy || amends(o.request.Kind, o.request.Back)
	}
}

func (p *play) answer(o *modelOp, reply bucket.Reply, bad bool) {
	o.done = true
	var err error
	if bad {
		reply, err = bucket.Reply{}, errStore
	}
	o.op.Done(o.op, reply, err)
	o.op = nil
}
