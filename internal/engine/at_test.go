package engine

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// Most tests of this package bring their own time: mustNew makes limiters with
// a ManualClock, and these set it before they call.

func setTime(l *Limiter, now time.Duration) time.Duration {
	l.manual.Set(now)
	return l.clock.Now()
}

// startEarlier makes the machine's clock of a limiter that much older, as if it had not been used.
func startEarlier(l *Limiter, by time.Duration) {
	l.clock.Resume(time.Now().Add(-by), 0, 0, 0, false)
}

func takeAt(r *Rule, key Key, n uint64, now time.Duration) limit.Decision {
	setTime(r.limiter, now)
	return r.Take(context.Background(), key, n)
}

func peekAt(r *Rule, key Key, n uint64, now time.Duration) limit.Decision {
	setTime(r.limiter, now)
	return r.Peek(key, n)
}

func chargePeerAt(r *Rule, pos, units uint64, now time.Duration) {
	setTime(r.limiter, now)
	r.ChargePeer(pos, units)
}

func takeAllAt(l *Limiter, charges []Charge, now time.Duration) (limit.Decision, int) {
	setTime(l, now)
	return l.TakeAll(context.Background(), charges)
}

func advanceAt(l *Limiter, now time.Duration) {
	setTime(l, now)
	l.Advance()
}

// A limiter has one clock: what cannot be used with it is refused by name.
func TestOneClock(t *testing.T) {
	t.Parallel()
	rules := []limit.RuleConfig{rule("a", 1, time.Second, 20)}
	_, err := New(Config{Rules: rules, Store: nowhere{}, Clock: new(ManualClock)})
	if err == nil || !strings.Contains(err.Error(), "Clock") || !strings.Contains(err.Error(), "leave it nil") {
		t.Errorf("Clock beside Store: %v", err)
	}
	lim := mustNew(t, rules...)
	got := panicOf(func() { lim.TakeAllAt(t.Context(), []Charge{charge(lim.rules[0], 1)}, time.Now()) })
	if !strings.Contains(got, "a limiter that has a Clock") || !strings.Contains(got, "call TakeAll") {
		t.Errorf("TakeAllAt: panic %q", got)
	}
}

func panicOf(f func()) (message string) {
	defer func() { message, _ = recover().(string) }()
	f()
	return ""
}

// All calls go by the clock: a limiter whose clock stands still refills nothing,
// and a refund of what has drained meanwhile makes no bucket fuller.
func TestManualClock(t *testing.T) {
	t.Parallel()
	var clock ManualClock
	lim, err := New(Config{Rules: []limit.RuleConfig{strictRule("a", 1, time.Second, 2)}, Clock: &clock})
	if err != nil {
		t.Fatal(err)
	}
	r, ctx := lim.rules[0], t.Context()
	key := r.BytesKey([]byte("x"))
	take := func(n uint64) bool { return r.Take(ctx, key, n).Allowed }
	if !take(2) || take(1) {
		t.Fatal("want the burst at 0")
	}
	clock.Set(time.Second)
	if !r.Peek(key, 1).Allowed || !take(1) || take(1) {
		t.Error("want one more after a second")
	}
	clock.Set(10 * time.Second)
	r.Refund(key, 1) // of what has drained
	if !take(2) || take(1) {
		t.Error("a refund made the bucket fuller")
	}
	r.Refund(key, 1)
	if !take(1) || take(1) {
		t.Error("Refund gave back other than one")
	}
	r.Reset(key)
	if !take(2) || take(1) {
		t.Error("Reset left other than an empty bucket")
	}
	clock.Set(time.Second)
	if clock.Now() != 10*time.Second || lim.Now() != clock.Now() || take(1) {
		t.Errorf("set back: the clock is at %v, the limiter at %v", clock.Now(), lim.Now())
	}
}
