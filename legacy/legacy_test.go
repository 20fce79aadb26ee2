package legacy_test

import (
	"errors"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/legacy"
)

const ms = time.Millisecond

// minMax is a definition without a min_interval, or with one.
func minMax(calls uint64, period time.Duration, interval ...time.Duration) legacy.Limit {
	l := legacy.Limit{Max: &calls, Duration: &period}
	if len(interval) > 0 {
		l.MinInterval = &interval[0]
	}
	return l
}

func minOnly(interval time.Duration) legacy.Limit { return legacy.Limit{MinInterval: &interval} }

// The translations that Sharkey documents: drip rate and size, and the time in
// which a full bucket drains.
func TestTranslation(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		limit      legacy.Limit
		size, drip uint64
		every      time.Duration
		full       time.Duration
		rule       string
	}{
		{minMax(10, 5000*ms, 1000*ms), 10, 2, 1000 * ms, 5000 * ms, "2/s"},
		{minMax(4096, 2000*ms), 4096, 2, ms, 2048 * ms, "2000/s"},
		{minMax(300, time.Hour), 300, 1, 12000 * ms, time.Hour, "1/12s"},
		{minMax(3, 1000*ms), 3, 1, 333 * ms, 999 * ms, "1/333ms"},
		{minMax(100, 60000*ms, 100*ms), 100, 1, 600 * ms, 60000 * ms, "1/600ms"}, // an interval that is shorter
		{minMax(5, 60000*ms, 1000*ms), 5, 1, 12000 * ms, 60000 * ms, "1/12s"},
		{minMax(10, 10000*ms), 10, 1, 1000 * ms, 10000 * ms, "1/s"},
		{minMax(10, 10000*ms, 0), 10, 1, 1000 * ms, 10000 * ms, "1/s"}, // given, and 0
		{minMax(10, 10000*ms+999*time.Microsecond), 10, 1, 1000 * ms, 10000 * ms, "1/s"},
		{minMax(1, 1), 1, 1, ms, ms, "1000/s"}, // less than 1 ms
		{minOnly(1000 * ms), 1, 1, 1000 * ms, 1000 * ms, "1/s"},
		{minOnly(1), 1, 1, ms, ms, "1000/s"},
		{legacy.Limit{MinInterval: new(250 * ms), Max: new(uint64(9))}, 1, 1, 250 * ms, 250 * ms, "4/s"}, // max without duration counts for nothing
	} {
		b, limited, err := tt.limit.Bucket()
		if err != nil || !limited || b != (legacy.Bucket{Size: tt.size, DripSize: tt.drip, DripRate: tt.every}) {
			t.Errorf("%s: %+v, %v, %v", tt.rule, b, limited, err)
		}
		if full := b.DripRate * time.Duration((b.Size+b.DripSize-1)/b.DripSize); full != tt.full {
			t.Errorf("%s: a full bucket drains in %v, want %v", tt.rule, full, tt.full)
		}
		rate, burst, err := b.Scale(1)
		if rate.String() != tt.rule || burst != tt.size || err != nil {
			t.Errorf("%s: rate %v, burst %d, %v", tt.rule, rate, burst, err)
		}
		if _, err := fastlimit.NewPlan(fastlimit.Config{Rules: []fastlimit.RuleConfig{{Name: "r", Rate: rate, Burst: burst}}}); err != nil {
			t.Errorf("%s: %v", tt.rule, err)
		}
	}
}

// A factor scales both size and drip rate, up to whole calls and milliseconds.
func TestScale(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		b      legacy.Bucket
		factor float64
		rate   fastlimit.Rate
		burst  uint64
	}{
		{legacy.Bucket{Size: 10, DripRate: 1000 * ms, DripSize: 2}, 0.5, fastlimit.Rate{N: 4, Per: time.Second}, 20},
		{legacy.Bucket{Size: 10, DripRate: 1000 * ms, DripSize: 2}, 2, fastlimit.Rate{N: 2, Per: 2000 * ms}, 5},
		{legacy.Bucket{Size: 1}, 0.5, fastlimit.Rate{N: 2, Per: time.Second}, 2},
		{legacy.Bucket{Size: 1}, 100, fastlimit.Rate{N: 1, Per: 100 * time.Second}, 1},
		{legacy.Bucket{Size: 3, DripRate: ms}, 0.3, fastlimit.Rate{N: 1000, Per: time.Second}, 10},
		{legacy.Bucket{Size: 7, DripRate: 1001 * ms}, 1.5, fastlimit.Rate{N: 1, Per: 1502 * ms}, 5},
	} {
		if rate, burst, err := tt.b.Scale(tt.factor); rate != tt.rate || burst != tt.burst || err != nil {
			t.Errorf("%+v by %v: %v, %d, %v; want %v, %d", tt.b, tt.factor, rate, burst, err, tt.rate, tt.burst)
		}
	}
}

// What limits nobody says so; what is impossible names its field.
func TestDisabledAndBad(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]legacy.Limit{
		"empty": {}, "max alone": {Max: new(uint64(5))}, "duration alone": {Duration: new(time.Second)},
		"duration 0": minMax(5, 0), "duration 0 with interval": minMax(5, 0, time.Second), "interval 0": minOnly(0),
	} {
		if b, limited, err := l.Bucket(); limited || err != nil {
			t.Errorf("%s: %+v, %v, %v; want no limit", name, b, limited, err)
		}
	}
	wantField := func(what, name string, err error) {
		t.Helper()
		var f *fastlimit.FieldError
		if !errors.As(err, &f) || f.Field != name || f.Problem == "" || f.Fix == "" {
			t.Errorf("%s: %v, want an error of %s", what, err, name)
		}
	}
	for what, tt := range map[string]struct {
		l    legacy.Limit
		name string
	}{
		"max 0": {minMax(0, time.Second), "Max"}, "huge max": {minMax(math.MaxUint64, time.Second), "Max"},
		"negative duration": {minMax(5, -ms), "Duration"}, "negative interval": {minMax(5, time.Second, -ms), "MinInterval"},
		"negative interval alone":  {minOnly(-1), "MinInterval"},
		"an interval of 292 years": {minMax(1<<53, ms, math.MaxInt64), "MinInterval"},
	} {
		_, _, err := tt.l.Bucket()
		wantField(what, tt.name, err)
	}
	good := legacy.Bucket{Size: 10}
	for what, tt := range map[string]struct {
		b      legacy.Bucket
		factor float64
		name   string
	}{
		"factor 0": {good, 0, "Factor"}, "factor below 0": {good, -1, "Factor"}, "no number": {good, math.NaN(), "Factor"},
		"endless": {good, math.Inf(1), "Factor"}, "tiny": {good, 1e-300, "Factor"}, "large": {good, 1e300, "Factor"},
		"no size": {legacy.Bucket{}, 1, "Size"}, "huge size": {legacy.Bucket{Size: math.MaxUint64}, 1, "Size"},
		"drip rate":          {legacy.Bucket{Size: 1, DripRate: 999 * time.Microsecond}, 1, "DripRate"},
		"negative drip rate": {legacy.Bucket{Size: 1, DripRate: -time.Second}, 1, "DripRate"},
	} {
		_, _, err := tt.b.Scale(tt.factor)
		wantField(what, tt.name, err)
	}
}

// FuzzTranslation compares with the same in rationals, and sees to it that whatever
// is translated is a rule or an error, and never panics.
func FuzzTranslation(f *testing.F) {
	f.Add(uint64(10), int64(5000), int64(1000), 1.0)
	f.Add(uint64(4096), int64(2000), int64(-1), 0.5)
	f.Add(uint64(3), int64(1000), int64(0), 1.5)
	f.Fuzz(func(t *testing.T, calls uint64, period, interval int64, factor float64) {
		l := minMax(calls, time.Duration(period)*ms)
		if interval >= 0 {
			l.MinInterval = new(time.Duration(interval) * ms)
		}
		b, limited, err := l.Bucket()
		if err != nil || !limited {
			return
		}
		if b.Size < 1 || b.DripSize < 1 || b.DripRate < ms {
			t.Fatalf("%+v", b)
		}
		// As far as floating point, in which the source calculates, tells halves from
		// what is next to them.
		const small = 1 << 12
		half := interval > 0 && 2*int64(calls)*interval%period == 0
		if calls < small && period < small && interval < small && !half {
			if want := rational(calls, period, interval); b.DripSize != want {
				t.Fatalf("%d in %d ms, %d apart: drips of %d, want %d", calls, period, interval, b.DripSize, want)
			}
		}
		if rate, burst, err := b.Scale(factor); err == nil && (rate.N < 1 || rate.Per < ms || burst < 1) {
			t.Fatalf("%+v by %v: %v, %d", b, factor, rate, burst)
		}
	})
}

// rational is the drip size without floating point: ⌊calls·interval/period + 1/2⌋.
func rational(calls uint64, period, interval int64) uint64 {
	if interval < 0 {
		interval = floor(new(big.Rat).Add(big.NewRat(period, int64(calls)), big.NewRat(1, 2)))
	}
	drip := new(big.Rat).Mul(big.NewRat(int64(calls), period), big.NewRat(max(interval, 1), 1))
	return uint64(max(floor(drip.Add(drip, big.NewRat(1, 2))), 1))
}

func floor(r *big.Rat) int64 { return new(big.Int).Div(r.Num(), r.Denom()).Int64() }
