package fastlimit

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestClockRounding: by an ideal clock a bucket admits more than its burst, by
// less than r·2 µs, and at times by more than r·1 µs.
func TestClockRounding(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rate  Rate
		burst uint64
		least float64 // of r·1 µs that is exceeded
	}{
		{Rate{1_000_000_000, time.Second}, 1000, 1.9},
		{Rate{65_533, time.Second}, 3, 0.9},
		{Rate{70_000, time.Second}, 3, 0.9},
		{Rate{10, time.Second}, 3, 0.9}, // T is whole µs: no grace
	} {
		r := mustNew(t, strictRule("a", tt.rate.N, tt.rate.Per, tt.burst)).rules[0]
		key, o, rng := r.BytesKey([]byte("x")), newOracle(tt.rate), rand.New(rand.NewPCG(5, tt.rate.N))
		now, most := 999*time.Nanosecond, int64(0)
		for i := range 20_000 {
			switch rng.IntN(4) * min(i, 1) { // to the beginning or the end of a µs
			case 0:
				now += 999*time.Nanosecond - now%time.Microsecond
			case 1:
				now += time.Microsecond - 1 - (now+time.Microsecond-1)%time.Microsecond
			case 2:
				if retry := peekAt(r, key, 1, now).RetryAfter; retry > 0 {
					now += retry - now%time.Microsecond
				}
			case 3:
				now += time.Duration(rng.Int64N(3000))
			}
			o.at(now)
			for takeAt(r, key, 1, now).Allowed {
				most = max(most, o.admit(1))
			}
		}
		micro := int64(tt.rate.N) * int64(time.Microsecond) // r·1 µs, on the oracle's scale
		excess := float64(most-o.units(float64(tt.burst))) / float64(micro)
		if excess >= 2 || excess < tt.least {
			t.Errorf("%v: %.4f times r·1 µs above the burst, want %v or more and less than 2", tt.rate, excess, tt.least)
		}
		plan := r.limiter.Plan().Rules[0]
		if got := plan.MaxBurst(); o.units(float64(got)) < most-int64(tt.rate.Per) {
			t.Errorf("%v: MaxBurst is %d, and %v units were admitted", tt.rate, got, float64(most)/float64(tt.rate.Per))
		}
	}
}

// A sketch may stop counting only above every level that P2 allows, and the
// filter may forget only a client that has drained: both include the rounding.
func TestRoundingIsPlanned(t *testing.T) {
	t.Parallel()
	for _, rc := range []RuleConfig{
		rule("a", 1_000_000_000, time.Second, 2_000_000_000), rule("b", 65_533, time.Second, 1_000_000), rule("c", 10, time.Second, 20),
	} {
		lim := mustNew(t, rc)
		r, rp := lim.rules[0], lim.Plan().Rules[0]
		highest := r.shape.Limit() + r.shape.Grace() + r.threshold + (1+64)*r.shape.Unit() // of P2, with C = 64
		if got := r.sketchLimit(&rp); got < highest {
			t.Errorf("%s: cells stop at %d ticks, P2 allows %d", rc.Name, got, highest)
		}
		units := 1.5*float64(rc.Burst) + 2
		least := time.Duration(units/rc.Rate.PerSecond()*1e9) + 2*time.Microsecond
		if got := rp.drainTime(); got < least {
			t.Errorf("%s: drains in %v, want %v or more", rc.Name, got, least)
		}
		if _, burst := rp.ClusterBound(0); burst < uint64(units-1+1.9e-6*rc.Rate.PerSecond()) {
			t.Errorf("%s: the bound of one node is %d", rc.Name, burst)
		}
		rp.nodes, rp.slack = 2, time.Nanosecond
		if _, burst := rp.ClusterBound(0); burst < uint64(units-1+1.9e-6*rc.Rate.PerSecond())+rc.Burst/2 {
			t.Errorf("%s: the bound of two nodes is %d", rc.Name, burst)
		}
	}
}
