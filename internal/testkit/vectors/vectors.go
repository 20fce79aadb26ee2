// Package vectors has the test vectors of the limiters whose users come here:
// calls with the decisions and levels that their own tests or documents say
// (docs/migrate.md has the sources and what differs). They run through the
// library, on buckets in memory or on a shared store.
//
// Left out is what is not about decisions and levels, such as names and lifetimes
// of keys; what a source does by a bug; blocking; and waiting, which TestWaitLikeNERD of
// package fastlimit has.
package vectors

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket"
)

// Vector is a bucket, window or log and a row of calls on it. Sources that count
// fractions are scaled: a unit is a thousandth of theirs where the name says milli.
type Vector struct {
	Name        string
	Rate        fastlimit.Rate
	Burst       uint64 // 0 of windows and logs
	Algorithm   fastlimit.Algorithm
	CountDenied bool
	Override    bool // the limit is a client's own, beside a rule with another one

	// Before is the level that the bucket has at first. One above Burst is of a
	// limit that was lowered since: only a shared store has it, as a limiter in
	// memory begins anew.
	Before uint64
	Calls  []Call
}

// Verb is what a call does.
type Verb uint8

// The verbs.
const (
	Take   Verb = iota // all of N or nothing
	Fill               // as many of N as fit
	Refund             // what sources write as a negative amount
	Peek               // whether N would be taken
)

// Call is one call and what is known afterwards.
type Call struct {
	At      time.Duration // since the test began, which is at midnight
	Do      Verb
	N       uint64
	Allowed bool          // of Take and Peek; of Fill whether all of N was taken
	Level   uint64        // units in the bucket afterwards; of windows and logs what counts, at most their number
	Reset   time.Duration // until one more unit fits; -1: the source does not say
	Full    time.Duration // until the bucket is empty; -1: the source does not say
}

// slack is the StoreTimeout here, as short as it can be: a shared store's bucket
// holds what leaks in that time more, so that its resets come earlier by it.
const slack = time.Microsecond

// unsaid is a time that the source does not tell.
const unsaid time.Duration = -1

// All are the vectors of all sources.
func All() (all []Vector) {
	for _, source := range [][]Vector{sharkey(), prorate(), pecorino(), nerd(), textbook()} {
		all = append(all, source...)
	}
	return all
}

// Run runs all vectors, each in a bubble of its own in which time stands still
// during a call. open returns the store of a vector, which it closes itself when
// the bubble's test ends, and what is called before each call; nil is in memory.
func Run(t *testing.T, open func(t *testing.T) (store bucket.Store, before func())) {
	for _, v := range All() {
		if v.Before > v.most() && open == nil {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { v.run(t, open) })
		})
	}
}

func (v *Vector) run(t *testing.T, open func(t *testing.T) (bucket.Store, func())) {
	c := fastlimit.Config{Memory: fastlimit.MinMemory, StoreTimeout: slack}
	before := func() {}
	if open != nil {
		c.Store, before = open(t)
	}
	r := v.rule(t, c, v.Burst)
	if v.Before > v.most() {
		r = v.rule(t, c, v.Before)
	}
	before()
	if d := r.Take(t.Context(), key(r), v.Before); !d.Allowed {
		t.Fatalf("cannot begin at level %d: %+v", v.Before, d)
	}
	if v.Before > v.most() {
		r = v.rule(t, c, v.Burst) // of another node, after the limit was lowered
	}
	v.play(t, r, open != nil, before)
}

func (v *Vector) rule(t *testing.T, c fastlimit.Config, burst uint64) *fastlimit.Rule {
	t.Helper()
	// Strict, as the sources are: each call is decided by the bucket.
	c.Rules = []fastlimit.RuleConfig{{
		Name: "r", Rate: v.Rate, Burst: burst, Algorithm: v.Algorithm, CountDenied: v.CountDenied, Strict: true, OnFailure: fastlimit.FailClosed,
	}}
	if rule := &c.Rules[0]; v.Override {
		rule.Tiers = []fastlimit.Tier{{Rate: rule.Rate, Burst: rule.Burst}}
		rule.Rate, rule.Burst, rule.Strict = fastlimit.Rate{N: 100, Per: time.Hour}, 100, false
	}
	lim, err := fastlimit.New(c)
	if err != nil {
		t.Fatal(err)
	}
	r, _ := lim.Rule("r")
	if v.Override {
		return r.Tier(0)
	}
	return r
}

// most is how many units fit.
func (v *Vector) most() uint64 {
	if v.Algorithm.Periodic() {
		return v.Rate.N
	}
	return v.Burst
}

func key(r *fastlimit.Rule) fastlimit.Key { return r.BytesKey([]byte("client")) }

func (v *Vector) play(t *testing.T, r *fastlimit.Rule, shared bool, before func()) {
	start, ctx, k := time.Now(), t.Context(), key(r)
	late := v.late(shared)
	for i, c := range v.Calls {
		time.Sleep(c.At - time.Since(start))
		before()
		var d fastlimit.Decision
		switch c.Do {
		case Take:
			d = r.Take(ctx, k, c.N)
		case Fill:
			var taken uint64
			d, taken = r.TakeUpTo(ctx, k, c.N)
			d.Allowed = taken == c.N
		case Refund:
			r.Refund(k, c.N)
			synctest.Wait()
			d = fastlimit.Decision{Outcome: fastlimit.Outcome{Allowed: true}}
		case Peek:
			d = r.Peek(k, c.N)
		}
		// What is left is asked, as a call does not tell it all.
		after := r.Peek(k, 1)
		full, left := v.leak(c.Level), int64(v.most()-c.Level)
		periodic := v.Algorithm.Periodic()
		switch {
		case d.Degraded:
			t.Fatalf("call %d: the store was not asked: %+v", i, d)
		case d.Allowed != c.Allowed:
			t.Errorf("call %d at %v: allowed %v, want %v", i, c.At, d.Allowed, c.Allowed)
		case periodic && after.Remaining != left:
			t.Errorf("call %d at %v: %d left, want level %d: %d", i, c.At, after.Remaining, c.Level, left)
		case !periodic && after.TimeToEmpty != full:
			t.Errorf("call %d at %v: empty in %v, want level %d: %v", i, c.At, after.TimeToEmpty, c.Level, full)
		case c.Full != unsaid && (after.TimeToEmpty < c.Full || after.TimeToEmpty > c.Full+late):
			t.Errorf("call %d at %v: empty in %v, want %v", i, c.At, after.TimeToEmpty, c.Full)
		case c.Reset != unsaid && (after.RetryAfter > c.Reset+late || after.RetryAfter < c.Reset-slack):
			t.Errorf("call %d at %v: one more fits in %v, want %v", i, c.At, after.RetryAfter, c.Reset)
		}
	}
}

// late is by how much the times that a node tells may be longer than the source says.
// Windows and logs are a store's, whose clock may be slower than this node's by a
// thousandth; two of them for two periods.
func (v *Vector) late(shared bool) time.Duration {
	if shared && v.Algorithm.Periodic() {
		return v.Rate.Per / 250
	}
	return 0
}

// leak is the time in which so many units leak, rounded up to µs.
func (v *Vector) leak(units uint64) time.Duration {
	if v.Algorithm.Periodic() {
		return 0
	}
	n := time.Duration(v.Rate.N)
	return ((time.Duration(units)*v.Rate.Per+n-1)/n + time.Microsecond - 1) / time.Microsecond * time.Microsecond
}
