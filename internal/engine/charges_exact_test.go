package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/limit"
)

// refusing is a store that takes nothing, and counts what is given back to it.
type refusing struct{ givenBack atomic.Int64 }

func (*refusing) Runs(bucket.Algorithm) bool { return true }

func (s *refusing) Submit(op *bucket.Op) error {
	if op.Kind == bucket.Refund {
		s.givenBack.Add(1)
	}
	return errors.New("away")
}

func (*refusing) Close(context.Context) error { return nil }

// TestPolicyAdmissionIsNotGivenBack: on_failure: open admits without charging
// anybody. If a later rule denies the request there is nothing to give back; it
// would be taken from what the client used before.
func TestPolicyAdmissionIsNotGivenBack(t *testing.T) {
	t.Parallel()
	store := new(refusing)
	open, closed := strictRule("open", 1, time.Hour, 5), strictRule("closed", 1, time.Hour, 5)
	open.OnFailure, closed.OnFailure = limit.FailOpen, limit.FailClosed
	lim, err := New(Config{Rules: []limit.RuleConfig{open, closed}, Store: store, StoreTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	r := lim.rules[0]
	d := charge(r, 1).Key.digest()
	before, _ := r.buckets.Table.Take(d, r.buckets.Shape.Ticks(lim.Now()), r.buckets.Shape.Cost(3))
	for range 3 {
		if d, by := lim.TakeAll(t.Context(), []Charge{charge(r, 1), charge(lim.rules[1], 1)}); d.Allowed || by != 1 {
			t.Fatalf("%+v by %d, want a denial by the closed rule", d, by)
		}
	}
	if after := r.buckets.Table.Lookup(d); after != before || store.givenBack.Load() != 0 {
		t.Errorf("the bucket was busy until %d and is until %d; %d refunds were sent", before, after, store.givenBack.Load())
	}
}

// TestShadowDenialIsOneDecision: a shadow rule whose table denies has decided. It
// is not asked again by filter, sketch and bucket.
func TestShadowDenialIsOneDecision(t *testing.T) {
	t.Parallel()
	shadow := rule("shadow", 1, time.Second, 20)
	shadow.Mode = limit.Shadow
	lim := mustNew(t, shadow, rule("real", 1, time.Second, 20))
	s := lim.rules[0]
	k := charge(s, 1).Key
	for takeAt(s, k, 1, 0).Allowed {
	}
	before, level := s.Stats(), s.sketch.Level(k.digest(), 0)
	d, by := takeAllAt(lim, []Charge{charge(s, 1), charge(lim.rules[1], 1)}, 0)
	if !d.Allowed || by != 1 {
		t.Fatalf("%+v by %d, want an admission by the enforced rule", d, by)
	}
	after := s.Stats()
	before.Denied[limit.StageTable]++
	if after.Allowed != before.Allowed || after.Denied != before.Denied {
		t.Errorf("the shadow rule counted %v allowed and %v denied, want %v and %v", after.Allowed, after.Denied, before.Allowed, before.Denied)
	}
	if got := s.sketch.Level(k.digest(), 0); got != level {
		t.Errorf("its sketch went from %d to %d for a request that the table denied", level, got)
	}
}

// TestDeniedRequestLeavesNoLocalCharge: what a failure policy charged to this
// node's table is given back there if a later rule denies the request, and the
// store, which was not asked, is given nothing.
func TestDeniedRequestLeavesNoLocalCharge(t *testing.T) {
	t.Parallel()
	store := new(refusing)
	closed := strictRule("closed", 1, time.Hour, 5)
	closed.OnFailure = limit.FailClosed
	lim, err := New(Config{Rules: []limit.RuleConfig{strictRule("local", 1, time.Hour, 5), closed}, Store: store, StoreTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	r := lim.rules[0]
	for range 20 {
		if d, by := lim.TakeAll(t.Context(), []Charge{charge(r, 1), charge(lim.rules[1], 1)}); d.Allowed || by != 1 {
			t.Fatalf("%+v by %d, want a denial by the closed rule", d, by)
		}
	}
	if d := r.Take(t.Context(), charge(r, 1).Key, 5); !d.Allowed || store.givenBack.Load() != 0 {
		t.Errorf("the whole burst of the local rule: %+v; %d refunds were sent", d, store.givenBack.Load())
	}
}
