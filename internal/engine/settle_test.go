package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// A pending request of TestSettleIsExact: charged units of cost, in µs of leak.
type pending struct {
	at      time.Duration
	charged uint64
	cost    uint64
}

// settled is one charge in the oracle, for an admitted request.
type settled struct {
	at    time.Duration
	units uint64
}

// levelOf is the level at now of a bucket that leaks n in a second, by all charges: the
// largest sum since some time less what leaks since (in millionths of a unit).
func levelOf(all []settled, n int64, now time.Duration) (level int64) {
	sum := int64(0)
	for _, s := range slices.Backward(all) {
		sum += int64(s.units) * 1e6
		level = max(level, sum-(now-s.at).Microseconds()*n)
	}
	return level
}

// Whatever requests turn out to cost, and in whatever order their answers come: the bucket
// holds at least what the requests have cost in the end (P2), never more than the burst, and
// denies only what its own charges explain (P1). Requests in progress count what they were
// charged, and what did not fit when an answer came is lost.
func TestSettleIsExact(t *testing.T) {
	t.Parallel()
	const rate, burst = 10, 20
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 27))
		lim := mustNew(t, strictRule("a", rate, time.Second, burst))
		r := lim.rules[0]
		key := r.BytesKey([]byte("a"))
		now := time.Duration(0)
		var open []int      // indices of all that are in progress
		var final []settled // what requests have cost so far, by the time of their charge
		var charges []pending
		var x int64 // the bucket, by hand, in millionths
		leak := func(to time.Duration) {
			x = max(0, x-(to-now).Microseconds()*rate)
			now = to
			setTime(lim, now)
		}
		for range 300 {
			leak(now + time.Duration(rng.Uint64N(400))*time.Millisecond)
			if len(open) == 0 || rng.IntN(2) == 0 {
				c := 1 + rng.Uint64N(6)
				d := r.Take(t.Context(), key, c)
				if fits := x+int64(c)*1e6 <= burst*1e6; d.Allowed != fits {
					t.Fatalf("seed %d, %v: %+v at level %d, cost %d", seed, now, d, x, c)
				}
				if d.Allowed {
					x += int64(c) * 1e6
					open = append(open, len(final))
					charges = append(charges, pending{now, c, 0})
					final = append(final, settled{now, c})
				}
			} else {
				k := rng.IntN(len(open))
				i := open[k]
				open = append(open[:k], open[k+1:]...)
				p, n := charges[i], rng.Uint64N(12)
				more := r.Settle(t.Context(), key, p.charged, n, p.at)
				if n > p.charged {
					want := min(n-p.charged, uint64(burst*1e6-x)/1e6)
					if more != want {
						t.Fatalf("seed %d: %d more, want %d at level %d", seed, more, want, x)
					}
					x += int64(more) * 1e6
					charges = append(charges, pending{})
					final = append(final, settled{now, more})
				} else {
					x -= min(x, max(0, int64(p.charged-n)*1e6-(now-p.at).Microseconds()*rate))
					final[i].units = n
				}
			}
			if got := int64(r.buckets.Shape.Level(r.buckets.Table.Lookup(key.digest()), r.buckets.Ticks(now))) * 1e6 / int64(r.buckets.Shape.Unit()); got != x {
				t.Fatalf("seed %d: level %d, want %d", seed, got, x)
			}
			if truth := levelOf(final, rate, now); truth > x || x > burst*1e6 {
				t.Fatalf("seed %d, %v: P2: requests have cost %d, the bucket holds %d", seed, now, truth, x)
			}
		}
	}
}

// Settling is no decision, and what is not suspected reaches no bucket; all of it counts
// towards suspicion.
func TestSettleBelowSuspicion(t *testing.T) {
	t.Parallel()
	lim := mustNew(t, limit.RuleConfig{Name: "a", Rate: perSec(10), Burst: 20})
	r := lim.rules[0]
	key := r.BytesKey([]byte("a"))
	setTime(lim, time.Second)
	r.Take(t.Context(), key, 1)
	before := r.Stats()
	if more := r.Settle(t.Context(), key, 1, 6, time.Second); more != 5 {
		t.Errorf("%d more", more)
	}
	if d := r.Peek(key, 1); d.Stage != limit.StageSketch {
		t.Errorf("%+v", d)
	}
	if more := r.Settle(t.Context(), key, 1, 6, time.Second); more != 5 {
		t.Errorf("%d more", more)
	}
	if d := r.Peek(key, 1); d.Remaining != 15 {
		t.Errorf("%+v", d)
	}
	if after := r.Stats(); after.Allowed != before.Allowed || after.Denied != before.Denied {
		t.Errorf("%+v, before %+v", after, before)
	}
	r.Settle(t.Context(), key, 1, 1<<63, time.Second)
	if d := r.Peek(key, 1); d.Allowed || d.Remaining != 0 {
		t.Errorf("%+v", d)
	}
}

// A window gives back while it lasts, a log nothing.
func TestSettleInPeriods(t *testing.T) {
	t.Parallel()
	for algorithm, left := range map[limit.Algorithm][2]int64{limit.FixedWindow: {10, 4}, limit.SlidingWindow: {10, 4}, limit.SlidingLog: {4, 4}} {
		for i, later := range []time.Duration{time.Second, 70 * time.Second} {
			lim := mustNew(t, limit.RuleConfig{Name: "a", Rate: limit.Rate{N: 10, Per: time.Minute}, Algorithm: algorithm, Strict: true})
			r := lim.rules[0]
			key := r.BytesKey([]byte("a"))
			setTime(lim, time.Second)
			if i == 0 {
				r.Take(t.Context(), key, 6)
			}
			setTime(lim, time.Second+later)
			if i == 1 {
				r.Take(t.Context(), key, 6) // by another request
			}
			r.Settle(t.Context(), key, 6, 0, time.Second)
			if d := r.Peek(key, 1); d.Remaining != left[i] {
				t.Errorf("%v after %v: %+v, want %d", algorithm, later, d, left[i])
			}
		}
	}
}

// Costs in thousandths are charged and given back as such.
func TestSettleInThousandths(t *testing.T) {
	t.Parallel()
	for n, left := range map[uint64]uint64{0: 20_000, 1: 19_999, 700: 19_300, 2499: 17_501, 2500: 17_500, 2501: 17_499, 9999: 10_001, 30_000: 0} {
		lim := mustNew(t, inThousandths(strictRule("a", 10, time.Second, 20)))
		r := lim.rules[0]
		key := r.BytesKey([]byte("a"))
		now := setTime(lim, time.Second)
		r.Take(t.Context(), key, 2500)
		if more := r.Settle(t.Context(), key, 2500, n, now); more != min(max(n, 2500)-2500, 17_500) {
			t.Errorf("%d: %d more", n, more)
		}
		if !r.Peek(key, left).Allowed || r.Peek(key, left+1).Allowed {
			t.Errorf("%d: not just %d are left", n, left)
		}
	}
}

// What a request has cost more than it was charged marks the filter: the next one of the same
// client is not its first.
func TestSettleMarksTheFilter(t *testing.T) {
	t.Parallel()
	r := mustNew(t, rule("a", 100, time.Second, 10)).rules[0]
	if r.filter == nil {
		t.Fatal("no filter")
	}
	key := r.BytesKey([]byte("x"))
	r.Settle(t.Context(), key, 0, 1, 0)
	if d := r.Take(t.Context(), key, 1); d.Stage == limit.StageFilter {
		t.Errorf("first seen after it was charged: %+v", d)
	}
}
