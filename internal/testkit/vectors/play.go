package vectors

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/limit"
)

// Run runs all vectors, each in a bubble of its own in which time stands still
// during a call. open returns the store of a vector, which it closes itself when
// the bubble's test ends, and what is called before each operation; nil is in memory.
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

// prepared is a store that something is called for before each operation.
type prepared struct {
	bucket.Store

	before func()
}

func (p prepared) Submit(op *bucket.Op) error {
	p.before()
	return p.Store.Submit(op)
}

// world is what a vector is played on.
type world struct {
	*Vector

	t      *testing.T
	start  time.Time
	shared bool
	rule   *fastlimit.Rule
	line   line
}

func (v *Vector) run(t *testing.T, open func(t *testing.T) (bucket.Store, func())) {
	c := fastlimit.Config{Memory: limit.MinMemory, StoreTimeout: slack, Wait: fastlimit.WaitLimits{PerKey: v.Places}}
	if open != nil {
		store, before := open(t)
		c.Store = prepared{store, before}
	}
	w := &world{Vector: v, t: t, shared: open != nil}
	w.make(c, v.Burst)
	if v.Before > v.most() {
		w.make(c, v.Before)
	}
	if d := w.take("", v.Before); !d.Allowed {
		t.Fatalf("cannot begin at level %d: %+v", v.Before, d)
	}
	if v.Before > v.most() {
		w.make(c, v.Burst) // of another node, after the limit was lowered
	}
	w.play()
}

func (w *world) take(who string, n uint64) fastlimit.Decision {
	r, k := w.limit(who)
	return r.Take(w.t.Context(), k, n)
}

// make makes the limiter. Limits of clients' own are tiers of its rule.
func (w *world) make(c fastlimit.Config, burst uint64) {
	w.t.Helper()
	// Strict, as the sources are: each call is decided by the bucket.
	rule := fastlimit.RuleConfig{
		Name: "r", Rate: w.Rate, Burst: burst, Algorithm: w.Algorithm, CountDenied: w.CountDenied, Strict: true, OnFailure: fastlimit.FailClosed, MaxWait: w.MaxWait,
	}
	for _, own := range w.Own {
		rule.Tiers = append(rule.Tiers, fastlimit.Tier{Rate: own.Rate, Burst: own.Burst})
	}
	c.Rules = []fastlimit.RuleConfig{rule}
	lim, err := fastlimit.New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.rule = lim.Rules()[0]
}

// name of a client; vectors with one do not name it.
func name(who string) string {
	if who == "" {
		return "client"
	}
	return who
}

// limit is what decides about a client; nil if it has no limit.
func (w *world) limit(who string) (*fastlimit.Rule, fastlimit.Key) {
	k := w.rule.BytesKey([]byte(name(who)))
	for i, own := range w.Own {
		switch {
		case name(own.Who) != name(who):
		case own.Unlimited:
			return nil, k
		default:
			return w.rule.Tier(i), k
		}
	}
	return w.rule, k
}

// most is how many units fit.
func (v *Vector) most() uint64 {
	if v.Algorithm.Periodic() {
		return v.Rate.N
	}
	return v.Burst
}

func (w *world) play() {
	w.start = time.Now()
	for i := range w.Calls {
		c := &w.Calls[i]
		time.Sleep(c.At - time.Since(w.start))
		r, k := w.limit(c.Who)
		switch {
		case r == nil:
			if d := (*engine.Rule)(w.rule).Unlimited(); !d.Allowed || !c.Allowed {
				w.t.Errorf("call %d: %+v of one without limit", i, d)
			}
		case c.Do == Wait:
			w.line.ask(i, func() fastlimit.Decision { return r.Wait(w.t.Context(), k, c.N) })
		default:
			w.call(i, c, r, k)
		}
	}
	w.line.check(w)
}

// call makes a call that does not wait and checks what it says.
func (w *world) call(i int, c *Call, r *fastlimit.Rule, k fastlimit.Key) {
	var d fastlimit.Decision
	switch c.Do {
	case Take:
		d = r.Take(w.t.Context(), k, c.N)
	case Fill:
		var taken uint64
		d, taken = r.TakeUpTo(w.t.Context(), k, c.N)
		d.Allowed = taken == c.N
	case Refund:
		r.Refund(k, c.N)
		synctest.Wait()
		d = fastlimit.Decision{Outcome: limit.Outcome{Allowed: true}}
	case Peek:
		d = r.Peek(k, c.N)
	case Wait: // is not made here
	}
	// What is left is asked, as a call does not tell it all.
	after := r.Peek(k, 1)
	own, late := w.of(c.Who), w.late()
	full, left := own.leak(c.Level), int64(own.most())-int64(c.Level)
	periodic := w.Algorithm.Periodic()
	switch {
	case d.Degraded:
		w.t.Fatalf("call %d: the store was not asked: %+v", i, d)
	case d.Allowed != c.Allowed:
		w.t.Errorf("call %d at %v: allowed %v, want %v", i, c.At, d.Allowed, c.Allowed)
	case periodic && after.Remaining != left:
		w.t.Errorf("call %d at %v: %d left, want level %d: %d", i, c.At, after.Remaining, c.Level, left)
	case !periodic && after.TimeToEmpty != full:
		w.t.Errorf("call %d at %v: empty in %v, want level %d: %v", i, c.At, after.TimeToEmpty, c.Level, full)
	case c.Full != unsaid && (after.TimeToEmpty < c.Full || after.TimeToEmpty > c.Full+late):
		w.t.Errorf("call %d at %v: empty in %v, want %v", i, c.At, after.TimeToEmpty, c.Full)
	case c.Reset != unsaid && (after.RetryAfter > c.Reset+late || after.RetryAfter < c.Reset-slack):
		w.t.Errorf("call %d at %v: one more fits in %v, want %v", i, c.At, after.RetryAfter, c.Reset)
	}
}

// of is the vector with the client's own limit, if it has one.
func (v *Vector) of(who string) *Vector {
	for _, own := range v.Own {
		if name(own.Who) == name(who) {
			return &Vector{Rate: own.Rate, Burst: own.Burst, Algorithm: v.Algorithm}
		}
	}
	return v
}

// late is by how much the times that a node tells may be longer than the source says.
// Windows and logs are a store's, whose clock may be slower than this node's by a
// thousandth; two of them for two periods.
func (w *world) late() time.Duration {
	if w.shared && w.Algorithm.Periodic() {
		return w.Rate.Per / 250
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
