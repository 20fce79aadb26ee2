package fastlimit

import (
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// With a store requests wait by the limiter's own clock: whoever brings times of
// another is told so, by name, and not made to wait by it.
func TestAtFormsNeedALimiterWithoutStore(t *testing.T) {
	t.Parallel()
	lim, err := New(Config{Rules: []RuleConfig{rule("a", 1, time.Second, 20)}, Store: bucket.Nowhere{}})
	if err != nil {
		t.Fatal(err)
	}
	r, ctx := lim.rules[0], t.Context()
	key := r.BytesKey([]byte("x"))
	const now = 100 * time.Hour
	for name, call := range map[string]func(){
		"TakeAt":       func() { r.TakeAt(ctx, key, 1, now) },
		"PeekAt":       func() { r.PeekAt(key, 1, now) },
		"RefundAt":     func() { r.RefundAt(key, 1, now) },
		"ResetAt":      func() { r.ResetAt(key, now) },
		"ChargePeerAt": func() { r.ChargePeerAt(1, 1, now) },
		"TakeAllAt":    func() { lim.TakeAllAt(ctx, []Charge{{r, key, 1}}, now) },
	} {
		want := "BUG: fastlimit: " + name + " on a limiter with a Store"
		if got := panicOf(call); !strings.HasPrefix(got, want) || !strings.Contains(got, "call "+name[:len(name)-2]) {
			t.Errorf("%s: panic %q, want %q and what to call instead", name, got, want)
		}
	}
	// What tells the limiter's own time goes on.
	if d, _ := lim.TakeAllRead(ctx, []Charge{{r, key, 1}}, time.Now()); !d.Allowed {
		t.Errorf("TakeAllRead: %+v", d)
	}
	lim.Advance(lim.Now())
}

func panicOf(f func()) (message string) {
	defer func() { message, _ = recover().(string) }()
	f()
	return ""
}

// A refund makes no bucket fuller, though it is of a clock that is ahead of the
// one that charged; and RefundAt and ResetAt use the caller's.
func TestRefundAndResetAt(t *testing.T) {
	t.Parallel()
	lim := mustNew(t, strictRule("a", 1, time.Second, 2))
	lim.clock.start = lim.clock.start.Add(-10 * time.Second) // its own clock is 10 s ahead
	r, ctx := lim.rules[0], t.Context()
	key := r.BytesKey([]byte("x"))
	take := func(n uint64, now time.Duration) bool { return r.TakeAt(ctx, key, n, now).Allowed }
	if !take(1, 0) {
		t.Fatal("the first is denied")
	}
	r.Refund(key, 1) // of what the limiter's clock says has drained
	if !take(2, time.Second) {
		t.Error("a refund made the bucket fuller")
	}
	if take(1, time.Second) {
		t.Error("3 of 2 were admitted")
	}
	r.RefundAt(key, 1, time.Second)
	if !take(1, time.Second) || take(1, time.Second) {
		t.Error("RefundAt gave back other than one")
	}
	r.ResetAt(key, time.Second)
	if !take(2, time.Second) || take(1, time.Second) {
		t.Error("ResetAt left other than an empty bucket")
	}
}
