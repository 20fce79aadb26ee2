package engine

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/judge"
	"github.com/fastlimit/fastlimit/limit"
)

// TestClockRounding: by an ideal clock a bucket admits more than its burst, by
// less than r·2 µs, and at times by more than r·1 µs.
func TestClockRounding(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rate  limit.Rate
		burst uint64
		least float64 // of r·1 µs that is exceeded
	}{
		{limit.Rate{N: 1_000_000_000, Per: time.Second}, 1000, 1.9},
		{limit.Rate{N: 65_533, Per: time.Second}, 3, 0.9},
		{limit.Rate{N: 70_000, Per: time.Second}, 3, 0.9},
		{limit.Rate{N: 10, Per: time.Second}, 3, 0.9}, // T is whole µs: no grace
	} {
		r := mustNew(t, strictRule("a", tt.rate.N, tt.rate.Per, tt.burst)).rules[0]
		key, o, rng := r.BytesKey([]byte("x")), judge.Leaky(tt.rate), rand.New(rand.NewPCG(5, tt.rate.N))
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
			o.At(now)
			for takeAt(r, key, 1, now).Allowed {
				most = max(most, o.Admit(1))
			}
		}
		micro := int64(tt.rate.N) * int64(time.Microsecond) // r·1 µs, on the oracle's scale
		excess := float64(most-o.Units(float64(tt.burst))) / float64(micro)
		if excess >= 2 || excess < tt.least {
			t.Errorf("%v: %.4f times r·1 µs above the burst, want %v or more and less than 2", tt.rate, excess, tt.least)
		}
		plan := r.limiter.Plan().Rules[0]
		if got := plan.MaxBurst(); o.Units(float64(got)) < most-int64(tt.rate.Per) {
			t.Errorf("%v: MaxBurst is %d, and %v units were admitted", tt.rate, got, float64(most)/float64(tt.rate.Per))
		}
	}
}
