package engine

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/limit"
	"pgregory.net/rapid"
)

// What is assured is admitted, whatever others send and however small the memory is in
// which they collide, and a unit more would not fit the exact bucket: so it is the
// most that can be said.
func TestAssuredIsAdmitted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		clock := &ManualClock{}
		rate := limit.Rate{N: rapid.Uint64Range(1, 1000).Draw(t, "n"), Per: rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour}).Draw(t, "per")}
		c := limit.RuleConfig{
			Name: "a", Rate: rate, Burst: rapid.Uint64Range(1, 300).Draw(t, "burst"), Strict: rapid.Bool().Draw(t, "strict"),
		}
		if c.Algorithm = limit.Algorithm(rapid.IntRange(0, int(bucket.NumAlgorithms)-1).Draw(t, "algorithm")); periodic(c) {
			c.Burst, c.Rate.N = 0, c.Burst
		}
		lim, err := New(Config{Clock: clock, Memory: 4 * limit.MinMemory, Rules: []limit.RuleConfig{c}})
		if err != nil {
			t.Fatal(err)
		}
		r := lim.Rules()[0]
		ours := r.AddrKey(netip.MustParseAddr("192.0.2.1"))
		now := time.Duration(0)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			now += time.Duration(rapid.Int64Range(0, int64(rate.Per)).Draw(t, "pause"))
			clock.Set(now)
			for i := range rapid.IntRange(0, 200).Draw(t, "others") {
				r.Take(context.Background(), r.AddrKey(netip.AddrFrom4([4]byte{198, 51, byte(i >> 8), byte(i)})), 1)
			}
			for range rapid.IntRange(0, int(2*r.config.Burst)).Draw(t, "own") {
				r.Take(context.Background(), ours, 1)
			}
			checkAssured(t, r, ours)
		}
	})
}

// checkAssured takes what is assured, and looks at the exact bucket alone for more.
func checkAssured(t *rapid.T, r *Rule, key Key) {
	d := r.Assured(key)
	if !d.Allowed || d.Remaining < 0 || d.Remaining > int64(r.config.Burst) || d.RetryAfter != 0 {
		t.Fatalf("assured: %+v", d)
	}
	if empty := d.TimeToEmpty == 0; empty != (d.Remaining == int64(r.config.Burst)) && r.buckets.Shape.Grace() == 0 {
		t.Fatalf("burst %d, assured: %+v", r.config.Burst, d)
	}
	if again := r.Assured(key); again != d {
		t.Fatalf("asking changed %+v to %+v", d, again)
	}
	ticks, tat := r.buckets.Ticks(r.buckets.Clock.Now()), r.buckets.Table.Lookup(key.digest())
	if fits := r.buckets.Shape.Fits(tat, ticks, r.buckets.Shape.Cost(uint64(d.Remaining)+1)); fits && (!r.buckets.Logged || r.buckets.Remaining(key.digest(), tat, ticks) > uint64(d.Remaining)) {
		t.Fatalf("%d are assured, and one more would fit", d.Remaining)
	}
	for i := range d.Remaining {
		if v := r.Take(context.Background(), key, 1); !v.Allowed {
			t.Fatalf("%d were assured, and request %d was denied: %+v", d.Remaining, i+1, v)
		}
	}
}

// Nothing is assured where other nodes charge the same bucket.
func TestNothingIsAssuredWithASharedStore(t *testing.T) {
	t.Parallel()
	lim, err := New(Config{Memory: limit.MinMemory, Store: newSlowStore(t), Rules: []limit.RuleConfig{{Name: "a", Rate: limit.Rate{N: 1, Per: time.Second}, Burst: 20}}})
	if err != nil {
		t.Fatal(err)
	}
	r := lim.Rules()[0]
	if d := r.Assured(r.AddrKey(netip.MustParseAddr("192.0.2.1"))); d.Remaining != limit.RemainingUnknown || !d.Allowed {
		t.Errorf("%+v", d)
	}
}

func TestAssuredDoesNotAllocate(t *testing.T) {
	lim, err := New(Config{Memory: limit.MinMemory, Rules: []limit.RuleConfig{{Name: "a", Rate: limit.Rate{N: 1, Per: time.Second}, Burst: 20}}})
	if err != nil {
		t.Fatal(err)
	}
	r := lim.Rules()[0]
	key := r.AddrKey(netip.MustParseAddr("192.0.2.1"))
	if n := testing.AllocsPerRun(100, func() { r.Assured(key) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
