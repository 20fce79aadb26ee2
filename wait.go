package fastlimit

import (
	"context"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// Wait is [Rule.Take] for a request that may wait instead of being denied, for at most
// [RuleConfig.MaxWait]. It blocks its caller until the n units fit the client's bucket
// and then takes them. Those who wait for the same client are served in the order in
// which they came, and nobody overtakes them but callers of Take and TakeUpTo.
//
// It denies at once where the units will not fit in time, exceed the burst or, by
// [Config.Wait], find no place; and where the rule is in shadow mode, has no MaxWait, or
// its limiter has a [Config.Clock], in all of which cases Wait is Take. RetryAfter is
// then the time until the units would fit after those of everyone who waits. A caller
// whose ctx ends is denied as by Take, has taken nothing, and the next moves up; so are all
// by [Limiter.StopWaiting].
//
// It is denied, without an error and with nothing taken, also if others took the units:
// another node, or a caller of Take. It comes back at most 10 ms and one StoreTimeout
// after MaxWait, if its goroutine gets to run.
//
// A request that waits makes no decision until it ends, and counts once in [Rule.Stats].
// If nobody waits, Wait does not allocate and costs little more than Take.
func (r *Rule) Wait(ctx context.Context, key Key, n uint64) Decision {
	if r.lines == nil || n == 0 {
		return r.take(ctx, key, n, unread, 0)
	}
	r.check(key)
	charges := [1]Charge{{r, key, n}}
	d, _ := r.limiter.waitAll(ctx, charges[:], r.clock.now())
	return d
}

// WaitAll is [Limiter.TakeAll] for a request that may wait: as long as only rules deny it
// that have a [RuleConfig.MaxWait], it waits in the line of the one that denies it for the
// longest time, and nowhere else. When it is first there and its units fit, all rules are
// asked again. If another rule makes it wait then, it gives its place up and goes to the
// end of the line there, for as long as that rule's MaxWait lets it since it came; if one
// denies it that lets nobody wait, it is denied. Nothing is charged while it waits.
//
// Rules that come before in the order of charges are asked, and count, each time.
func (l *Limiter) WaitAll(ctx context.Context, charges []Charge) (d Decision, by int) {
	l.check(charges)
	return l.waitAll(ctx, charges, l.clock.now())
}

// WaitAllAt is WaitAll for a caller that has read the clock; see [Limiter.TakeAllAt].
func (l *Limiter) WaitAllAt(ctx context.Context, charges []Charge, at time.Time) (d Decision, by int) {
	l.check(charges)
	if !l.clock.machine {
		panic("BUG: fastlimit: WaitAllAt on a limiter with a Clock, which tells the time: call WaitAll")
	}
	return l.waitAll(ctx, charges, l.clock.follow(at.Sub(l.clock.start)))
}

// Waiter is a caller that is told when its request begins to wait, which few do: what
// it takes to notice that a client leaves is then spared for all others. Both methods are
// called on the goroutine of the caller.
type Waiter interface {
	// BeginWait is called at most once, when the request has got a place. The request
	// waits until ctx ends, at the latest.
	BeginWait() (ctx context.Context)
	// EndWait is called when there is a decision on a request that has waited.
	EndWait()
}

// WaitAllFor is [Limiter.WaitAllAt] for a [Waiter], whose ctx counts from when it waits.
func (l *Limiter) WaitAllFor(w Waiter, charges []Charge, at time.Time) (d Decision, by int) {
	l.check(charges)
	if !l.clock.machine {
		panic("BUG: fastlimit: WaitAllFor on a limiter with a Clock, which tells the time: call WaitAll")
	}
	return l.waitAllFor(context.Background(), w, charges, l.clock.follow(at.Sub(l.clock.start)))
}

func (l *Limiter) waitAll(ctx context.Context, charges []Charge, now time.Duration) (Decision, int) {
	return l.waitAllFor(ctx, nil, charges, now)
}

// waitAllFor is waitAll for a waiter, which may be nil.
func (l *Limiter) waitAllFor(ctx context.Context, who Waiter, charges []Charge, now time.Duration) (Decision, int) {
	for i := range charges {
		if charges[i].Rule.lines != nil && charges[i].Cost > 0 {
			w := attempt{limiter: l, charges: charges, at: stripeFor(charges), came: now, in: -1}
			d, by, held := w.try(ctx, now)
			if held {
				d, by = w.wait(ctx, who, d, by)
			}
			return d, by
		}
	}
	return l.takeAll(ctx, charges, now)
}

// attempt is a request that may wait.
type attempt struct {
	limiter *Limiter
	charges []Charge
	at      stripe
	came    time.Duration
	in      int // the charge in whose line it is; -1: in none
}

// waitSlack is how long after its deadline one that is not the first leaves: those ahead of
// it, whose time came before, may still be on their way.
const waitSlack = 10 * time.Millisecond

// minPause is the least time between two questions to a store that said no, but so little
// of it that the units would fit by now.
const minPause = time.Millisecond

// wait waits in one line after the other until there is a decision. d is the denial for
// now, and held by the rule of charge by. who may be nil.
func (w *attempt) wait(ctx context.Context, who Waiter, d Decision, by int) (Decision, int) {
	var timer *time.Timer // made with the first place: a flood gets none
	for {
		c := &w.charges[by]
		r := c.Rule
		now := r.clock.now()
		p, wait, no := r.join(c.Key.digest(), r.shape.Cost(c.Cost), now, w.came+r.config.MaxWait)
		if no != gotPlace {
			if no == allTaken {
				r.lines.refused.Add(1)
			}
			return w.deny(by, now, wait, no == tooLong), by
		}
		w.in = by
		if timer == nil {
			timer = time.NewTimer(time.Hour)
			defer timer.Stop()
		}
		if who != nil { // with its first place; not a field, for which charges would escape
			ctx = who.BeginWait()
			defer who.EndWait()
			who = nil
		}
		var held bool
		d, by, held = w.inLine(ctx, timer, p, d)
		w.in = -1
		r.leave(p)
		if !held {
			r.lines.count(ctx, d.Allowed)
			return d, by
		}
	}
}

func (s *lines) count(ctx context.Context, allowed bool) {
	switch {
	case allowed:
		s.admitted.Add(1)
	case ctx.Err() != nil:
		s.left.Add(1)
	default:
		s.denied.Add(1)
	}
}

// inLine waits at a place until there is a decision, or until another rule holds the
// request, which is charge by's.
func (w *attempt) inLine(ctx context.Context, timer *time.Timer, p *place, d Decision) (_ Decision, by int, held bool) {
	by = w.in
	r := w.charges[by].Rule
	now := r.clock.now()
	deadline := w.came + r.config.MaxWait
	for turn, pause := p.turn, deadline-now+waitSlack; ; turn = nil { // as the first: for the time alone
		timer.Reset(pause)
		select {
		case <-turn:
		case <-timer.C:
			if turn != nil && !isFirst(turn) {
				return w.deny(by, r.clock.now(), 0, true), by, false
			}
		case <-ctx.Done():
			r.counts.record(w.at, StageExact, false)
			return abandoned(), by, false
		case <-w.limiter.waiters.end:
			return w.deny(by, r.clock.now(), 0, false), by, false
		}
		now = r.clock.now()
		if d, by, held = w.try(ctx, now); !held || by != w.in {
			return d, by, held
		}
		pause = d.RetryAfter
		if r.shared != nil {
			pause = max(pause, minPause)
		}
		if now += pause; now > deadline {
			return w.deny(by, now-pause, d.RetryAfter, true), by, false
		}
	}
}

// isFirst reports whether the turn has come, which it may have with the timer.
func isFirst(turn <-chan struct{}) bool {
	select {
	case <-turn:
		return true
	default:
		return false
	}
}

// deny records and returns the last word on a request, which is charge by's. It counts
// towards a ban unless the request had to go for want of places, or because nobody waits any
// more: others have a part in that.
func (w *attempt) deny(by int, now, wait time.Duration, counts bool) Decision {
	c := &w.charges[by]
	r, digest, cost := c.Rule, c.Key.digest(), c.Rule.shape.Cost(c.Cost)
	if wait == 0 { // not known yet
		ahead, _ := r.ahead(digest)
		if w.in >= 0 {
			ahead -= min(ahead, cost)
		}
		wait = max(r.until(digest, ahead, cost, now), time.Microsecond)
	}
	d := r.decision(StageTable, false, r.table.Lookup(digest), now, cost)
	d.RetryAfter = wait
	if wait != bucket.Never {
		d.Remaining = min(d.Remaining, r.below(c.Cost))
	}
	if v, begun := w.record(by, now, counts); begun {
		return v
	}
	return d
}

// record records a denial by this node's table, and counts it towards a ban if asked to. It
// returns the decision if a ban has begun with it.
func (w *attempt) record(i int, now time.Duration, counts bool) (v Decision, begun bool) {
	c := &w.charges[i]
	v.Stage = StageTable
	if counts && c.Rule.bans != nil && c.Cost > 0 {
		v = c.Rule.convict(c.Key, v, now)
	}
	c.Rule.recordDenial(c.Key.digest(), c.Cost, v.Stage, w.at)
	return v, v.Stage == StageBan
}
