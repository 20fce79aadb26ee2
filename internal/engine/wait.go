package engine

import (
	"context"
	"slices"
	"time"

	"github.com/fastlimit/fastlimit/internal/exact"
	"github.com/fastlimit/fastlimit/internal/line"
	"github.com/fastlimit/fastlimit/limit"
)

// Wait is fastlimit.Rule.Wait.
func (r *Rule) Wait(ctx context.Context, key Key, n uint64) limit.Decision {
	if r.lines == nil || n == 0 {
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
		if charges[i].Rule.lines != nil && charges[i].Cost > 0 {
			w := attempt{limiter: l, charges: charges, at: stripeFor(charges), came: now, d: admitUnchecked(limit.StageFilter), by: -1}
			if denied := w.come(ctx, now); !denied {
				w.wait(ctx, who)
			}
			w.leave()
			return w.d, w.by
		}
	}
	return l.takeAll(ctx, charges, now)
}

// waitSlack is how long after its deadline one that is not the first leaves: those ahead of
// it, whose time came before, may still be on their way.
const waitSlack = 10 * time.Millisecond

// minPause is the least time between two questions to a store that said no, but so little
// of it that the units would fit by now.
const minPause = time.Millisecond

// wait waits until all rules have admitted the request, or one denies it. who may be nil.
func (w *attempt) wait(ctx context.Context, who waiter) {
	if !w.waits() {
		return
	}
	if who != nil { // not a field, for which charges would escape
		ctx = who.BeginWait()
		defer who.EndWait()
	}
	timer := time.NewTimer(w.pause())
	defer timer.Stop()
	for w.waits() {
		var denied bool
		select {
		case <-w.in.places[0].Called():
			denied = w.turns(ctx)
		case <-timer.C:
			denied = w.turns(ctx)
		case <-ctx.Done():
			i := w.in.places[0].charge
			w.charges[i].Rule.counts.record(w.at, limit.StageExact, false)
			denied = w.deny(exact.Abandoned(), i, w.now())
		case <-w.limiter.waiters.Stopped():
			denied = w.denyFor(w.in.places[0].charge, w.now(), 0, false)
		}
		if denied {
			for i := range w.in.places {
				w.in.places[i].lines.CountDenied(ctx)
			}
			return
		}
		if w.waits() {
			timer.Reset(w.pause())
		}
	}
}

// leave gives up the places that a denial has left.
func (w *attempt) leave() {
	if w.in != nil {
		for i := range w.in.places {
			w.in.places[i].lines.Leave(w.in.places[i].Place)
		}
	}
}

func (w *attempt) now() time.Duration { return w.limiter.clock.Now() }

// pause is how long there is nothing to do unless it is woken.
func (w *attempt) pause() time.Duration {
	due := w.in.places[0].due
	for i := range w.in.places {
		due = min(due, w.in.places[i].due)
	}
	return due - w.now()
}

// turns asks the rules in whose lines the request is the first.
func (w *attempt) turns(ctx context.Context) (denied bool) {
	now := w.now()
	var over chargeSet
	if d, by := checkAll(theBan, w.charges, now, w.at, &over); by >= 0 {
		return w.deny(d, by, now)
	}
	for i := 0; i < len(w.in.places); {
		left, denied := w.turn(ctx, &w.in.places[i], now)
		switch {
		case denied:
			return true
		case left:
			w.in.places = slices.Delete(w.in.places, i, i+1)
		default:
			i++
		}
	}
	return false
}

// turn asks the rule of a place if that is the first and it is time. Whoever is admitted has left
// its line.
func (w *attempt) turn(ctx context.Context, p *stand, now time.Duration) (left, denied bool) {
	moved := w.follow(p)
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
		p.lines.Leave(p.Place)
		p.lines.Admitted.Add(1)
		return true, false
	}
	pause := d.RetryAfter
	if c.Rule.shared != nil {
		pause = max(pause, minPause)
	}
	if p.due = now + pause; !c.holds(&d) || p.due > p.deadline {
		return false, w.denyFor(p.charge, now, d.RetryAfter, !p.moved)
	}
	return false, false
}

// follow has the request ask the rule that goes on with that of its place, if With has made
// one since it came or was asked last: for as long as either lets it wait. That it is denied then
// does not count against the client.
func (w *attempt) follow(p *stand) bool {
	c := w.charges[p.charge]
	next := p.lines.heir.load()
	if next == nil || next == c.Rule || c.Rule.slot > 0 { // a named rate stays what it is
		return false
	}
	w.charges, p.moved = slices.Clone(w.charges), true
	p.deadline = max(p.deadline, w.came+next.config.MaxWait)
	w.charges[p.charge] = Charge{next, c.Key, (c.Cost*uint64(next.scale) + uint64(c.Rule.scale) - 1) / uint64(c.Rule.scale)}
	return true
}

// StopWaiting is fastlimit.Limiter.StopWaiting.
func (l *Limiter) StopWaiting() {
	l.checkMade()
	l.waiters.Stop()
}

// beginWaiting gives the limiter its bounds, and the waiters of the one that it goes on
// with, which may be nil.
func (l *Limiter) beginWaiting(c *Config, old *Limiter) {
	l.waitLimits = c.Wait.WithDefaults()
	if l.waiters = line.NewWaiters(); old != nil {
		l.waiters = old.waiters
	}
}

// ruleLines are the lines of a rule, and of those that go on with it.
type ruleLines struct {
	line.Lines

	heir weakRule // whom all who wait ask, whichever rule they came by
}

// How many shards the lines of a rule have, and those of a tier, of which there may be
// many (TestTierMemory).
const ruleShards, tierShards = 64, 4

func (r *Rule) newLines(counts *line.Counts, shards int) *ruleLines {
	s := new(ruleLines)
	s.Begin(shards, r.buckets.Shape.StoredUnit(), counts, r.limiter.waiters)
	return s
}

// beginLines gives a rule, or a tier, that lets requests wait its lines, or those of old,
// if that is not nil and has some. Time must pass by itself, so not that of a [ManualClock].
func (r *Rule) beginLines(old *Rule) {
	switch {
	case r.config.MaxWait == 0 || !r.enforced || !r.limiter.clock.IsMachine():
	case old != nil && old.lines != nil:
		r.lines = old.lines
	case r.base != nil:
		r.lines = r.newLines(r.base.lines.Counts, tierShards)
	default:
		r.lines = r.newLines(new(line.Counts), ruleShards)
	}
}

// goOn has all who wait, or come yet, ask r from now on, which goes on with their rule.
func (s *ruleLines) goOn(r *Rule) {
	s.heir.store(r)
	s.WakeFirst()
}
