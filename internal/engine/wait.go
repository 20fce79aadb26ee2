package engine

import (
	"context"
	"slices"
	"time"

	"github.com/fastlimit/fastlimit/internal/exact"
	"github.com/fastlimit/fastlimit/internal/queue"
	"github.com/fastlimit/fastlimit/limit"
)

// Wait is fastlimit.Rule.Wait.
func (r *Rule) Wait(ctx context.Context, key Key, n uint64) limit.Decision {
	if r.queues == nil || n == 0 {
		return r.take(ctx, key, n, unread, 0)
	}
	r.check(key)
	charges := [1]Charge{{r, key, n}}
	d, _ := r.limiter.waitAll(ctx, nil, charges[:], r.buckets.Clock.Now())
	return d
}

// WaitAll is fastlimit.Limiter.WaitAll.
func (l *Limiter) WaitAll(ctx context.Context, charges []Charge) (d limit.Decision, by int) {
	l.check(charges)
	return l.waitAll(ctx, nil, charges, l.clock.Now())
}

// waitAll is takeAll for a request that may wait. who may be nil.
func (l *Limiter) waitAll(ctx context.Context, who waiter, charges []Charge, now time.Duration) (limit.Decision, int) {
	for i := range charges {
		if charges[i].Rule.queues != nil && charges[i].Cost > 0 {
			w := attempt{limiter: l, charges: charges, at: stripeFor(charges), arrived: now, d: admitUnchecked(limit.StageFilter), by: -1}
			if denied := w.arrive(ctx, now); !denied {
				w.wait(ctx, who)
			}
			w.leave()
			return w.d, w.by
		}
	}
	return l.takeAll(ctx, charges, now)
}

// waitSlack is how long a request that is not first in its queue stays after its deadline. Requests ahead of
// it with earlier deadlines may be about to leave.
const waitSlack = 10 * time.Millisecond

// minPause is the least time between two operations of a waiting request on a shared store, even
// if the store's denial says that the units fit sooner.
const minPause = time.Millisecond

// wait waits until all rules have admitted the request, or one denies it. who may be nil.
func (w *attempt) wait(ctx context.Context, who waiter) {
	if !w.waiting() {
		return
	}
	if who != nil { // not a field, or charges would escape
		ctx = who.BeginWait()
		defer who.EndWait()
	}
	timer := time.NewTimer(w.pause())
	defer timer.Stop()
	for w.waiting() {
		var denied bool
		select {
		case <-w.in.all[0].Called():
			denied = w.step(ctx)
		case <-timer.C:
			denied = w.step(ctx)
		case <-ctx.Done():
			i := w.in.all[0].charge
			w.charges[i].Rule.counts.record(w.at, limit.StageExact, false)
			denied = w.deny(exact.Abandoned(), i, w.now())
		case <-w.limiter.waiters.Stopped():
			denied = w.denyFor(w.in.all[0].charge, w.now(), 0, false)
		}
		if denied {
			for i := range w.in.all {
				w.in.all[i].queues.CountDenied(ctx)
			}
			return
		}
		if w.waiting() {
			timer.Reset(w.pause())
		}
	}
}

// leave gives up the slots that a denied request still has.
func (w *attempt) leave() {
	if w.in != nil {
		for i := range w.in.all {
			w.in.all[i].queues.Leave(w.in.all[i].Slot)
		}
	}
}

func (w *attempt) now() time.Duration { return w.limiter.clock.Now() }

// pause is the time until the request has something to do, unless it is woken first.
func (w *attempt) pause() time.Duration {
	due := w.in.all[0].due
	for i := range w.in.all {
		due = min(due, w.in.all[i].due)
	}
	return due - w.now()
}

// step asks the rules in whose queues the request is first.
func (w *attempt) step(ctx context.Context) (denied bool) {
	now := w.now()
	var over chargeSet
	if d, by := checkAll(theBan, w.charges, now, w.at, &over); by >= 0 {
		return w.deny(d, by, now)
	}
	for i := 0; i < len(w.in.all); {
		left, denied := w.serve(ctx, &w.in.all[i], now)
		switch {
		case denied:
			return true
		case left:
			w.in.all = slices.Delete(w.in.all, i, i+1)
		default:
			i++
		}
	}
	return false
}

// serve asks the rule of a slot if the slot is first in its queue and due. An admitted request has left that
// queue.
func (w *attempt) serve(ctx context.Context, p *slot, now time.Duration) (left, denied bool) {
	moved := w.toSuccessor(p)
	if !p.First() {
		if moved {
			p.due = p.deadline + waitSlack
		}
		return false, now >= p.due && w.denyFor(p.charge, now, 0, false)
	}
	if moved || !p.asked {
		p.asked, p.due = true, now
	}
	if now < p.due {
		return false, false
	}
	c := &w.charges[p.charge]
	d, over := c.Rule.known(c.Key.digest(), c.Cost, now)
	if !over {
		var held bool
		if d, held = w.ask(ctx, p.charge, now, true); !held && !d.Allowed && c.Rule.enforced {
			return false, w.deny(d, p.charge, now)
		}
	}
	if d.Allowed || !c.Rule.enforced {
		p.queues.Leave(p.Slot)
		p.queues.Admitted.Add(1)
		return true, false
	}
	pause := d.RetryAfter
	if c.Rule.shared != nil {
		pause = max(pause, minPause)
	}
	if p.due = now + pause; !c.mayWait(&d) || p.due > p.deadline {
		return false, w.denyFor(p.charge, now, d.RetryAfter, !p.moved)
	}
	return false, false
}

// toSuccessor makes the request ask the newest successor of the rule it joined by, if With made one since the
// last step. It does not start from the rule it last asked, which may be gone. It may wait for the longer
// MaxWait of the two, and a denial does not count towards a ban.
func (w *attempt) toSuccessor(p *slot) bool {
	c := w.charges[p.charge]
	if p.origin == nil { // a named rate has no successor
		return false
	}
	next := newest(p.origin)
	if next == nil || next == c.Rule {
		return false
	}
	w.charges, p.moved = slices.Clone(w.charges), true
	p.deadline = max(p.deadline, w.arrived+next.config.MaxWait)
	w.charges[p.charge] = Charge{next, c.Key, (c.Cost*uint64(next.scale) + uint64(c.Rule.scale) - 1) / uint64(c.Rule.scale)}
	return true
}

// StopWaiting is fastlimit.Limiter.StopWaiting.
func (l *Limiter) StopWaiting() {
	l.checkMade()
	l.waiters.Stop()
}

// beginWaiting sets the limiter's bounds on waiting requests. It shares the waiters of its predecessor, if
// there is one.
func (l *Limiter) beginWaiting(c *Config, old *Limiter) {
	l.waitLimits = c.Wait.WithDefaults()
	if l.waiters = queue.NewWaiters(); old != nil {
		l.waiters = old.waiters
	}
}

// ruleShards and tierShards are the number of shards of a rule's queues and of a tier's, of which a rule may
// have many (TestTierMemory).
const ruleShards, tierShards = 64, 4

func (r *Rule) newQueues(counts *queue.Counts, shards int) *queue.Queues {
	s := new(queue.Queues)
	s.Begin(shards, r.buckets.Shape.StoredUnit(), counts, r.limiter.waiters)
	return s
}

// beginQueues gives a rule or tier with a MaxWait its predecessor's queues, or new ones. With a [ManualClock]
// nobody waits, because its time does not pass.
func (r *Rule) beginQueues(old *Rule) {
	switch {
	case r.config.MaxWait == 0 || !r.enforced || !r.limiter.clock.IsMachine():
	case old != nil && old.queues != nil:
		r.queues = old.queues
	case r.base != nil:
		r.queues = r.newQueues(r.base.queues.Counts, tierShards)
	default:
		r.queues = r.newQueues(new(queue.Counts), ruleShards)
	}
}
