package step

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

func mustSliding(t *testing.T, n uint64, per time.Duration) bucket.Shape {
	t.Helper()
	shape, err := bucket.NewSlidingWindow(n, per)
	if err != nil {
		t.Fatal(err)
	}
	return shape
}

func TestSlidingSteps(t *testing.T) {
	t.Parallel()
	const sec, now = 1_000_000, 100_250_000 // a quarter into window 100: three quarters of what was in 99
	const rest, next = 752, 1752            // ms until window 100 ends, and 101
	shape := mustSliding(t, 10, time.Second)
	at := func(previous, current, window, quiet uint64) State {
		return State{Algorithm: bucket.SlidingWindow, Level: current, Previous: previous, Last: window, Unit: sec, Quiet: quiet}
	}
	type change = func(*bucket.Op)
	in := func(window uint64) change { return func(op *bucket.Op) { op.Window = window } }
	floor := func(previous, current, window uint64) change {
		return func(op *bucket.Op) { op.Floor, op.Window = bucket.Pack(previous, current), window }
	}
	back := func(n uint64) change { return func(op *bucket.Op) { op.Back = n } }
	kind := func(k bucket.Kind) change { return func(op *bucket.Op) { op.Kind = k } }
	counted := func(op *bucket.Op) { op.CountDenied = true }
	take := func(count, cost uint64, with ...change) bucket.Op {
		op := bucket.Op{Kind: bucket.Take, Shape: shape, Count: count, Cost: cost}
		for _, set := range with {
			set(&op)
		}
		return op
	}
	for _, tt := range []struct {
		name    string
		s       State
		op      bucket.Op
		granted uint64
		ttl     int64 // ms; 0: nothing is written
		want    State
	}{
		{"empty", State{}, take(1, 1), 1, next, at(0, 1, 100, 0)},
		{"more than fits", State{}, take(99, 3), 3, next, at(0, 9, 100, 0)},
		{"three quarters of the window before", at(0, 8, 99, 0), take(99, 1), 4, next, at(8, 4, 100, 0)},
		{"rounded up", at(0, 9, 99, 0), take(99, 1), 3, next, at(9, 3, 100, 0)},
		{"not of two before", at(9, 8, 98, 0), take(99, 1), 10, next, at(0, 10, 100, 0)},
		{"the one before the last is over", at(9, 4, 99, 0), take(99, 1), 7, next, at(4, 7, 100, 0)},
		{"full", at(8, 4, 100, 0), take(1, 1), 0, 0, at(8, 4, 100, 0)},
		{"a denial does not roll what is stored", at(0, 10, 99, 0), take(1, 3), 0, 0, at(10, 0, 100, 0)},
		{"cost 0", at(8, 4, 100, 0), take(7, 0), 7, 0, at(8, 4, 100, 0)},
		{"cost 0 above the limit", at(8, 5, 100, 0), take(7, 0), 0, 0, at(8, 5, 100, 0)},
		{"clock stepped back, admitted", at(4, 3, 4000, 0), take(1, 1), 1, next, at(4, 4, 100, 0)},
		{"clock stepped back, denied", at(8, 4, 101, 0), take(1, 1), 0, next, at(8, 4, 100, 0)},
		{"clock stepped back, asked", at(8, 4, 101, 0), take(1, 1, kind(bucket.Peek)), 0, 0, at(8, 4, 100, 0)},
		{"another period's", State{Algorithm: bucket.SlidingWindow, Level: 9, Previous: 9, Last: 100, Unit: 60 * sec}, take(1, 1), 1, next, at(0, 1, 100, 0)},
		{"a fixed window's", State{Algorithm: bucket.FixedWindow, Level: 9, Last: 100, Unit: sec}, take(1, 1), 1, next, at(0, 1, 100, 0)},
		{"a leaky bucket's", leaky(5, now, 1, 0), take(1, 1), 1, next, at(0, 1, 100, 0)},
		{"asked", at(8, 1, 100, 0), take(9, 1, kind(bucket.Peek)), 3, 0, at(8, 1, 100, 0)},

		{"floor above both", at(1, 1, 100, 0), take(1, 1, floor(4, 3, 100)), 1, next, at(4, 4, 100, 0)},
		{"floor above one", at(5, 1, 100, 0), take(1, 1, floor(4, 3, 100)), 1, next, at(4, 4, 100, 0)},
		{"floor of a unit of the other count", at(1, 0, 100, 0), take(1, 9, floor(0, 1, 100)), 1, next, at(0, 10, 100, 0)},
		{"floor of units of each other's count", at(3, 2, 100, 0), take(1, 9, floor(1, 4, 100)), 0, next, at(1, 4, 100, 0)},
		{"floor of a unit that came in the next window", at(0, 1, 100, 0), take(1, 10, floor(0, 1, 99)), 0, 0, at(0, 1, 100, 0)},
		{"floor of the window before", at(1, 1, 100, 0), take(1, 1, floor(9, 4, 99)), 1, next, at(3, 2, 100, 0)},
		{"floor of a state of the window before", at(9, 2, 99, 0), take(1, 9, floor(9, 4, 99)), 0, rest, at(4, 0, 100, 0)},
		{"floor of two before", at(1, 1, 100, 0), take(1, 1, floor(9, 9, 98)), 1, next, at(1, 2, 100, 0)},
		{"floor of a window to come", at(1, 1, 100, 0), take(1, 1, floor(9, 9, 101)), 1, next, at(1, 2, 100, 0)},
		{"floor of no window", at(1, 1, 100, 0), take(1, 1, floor(9, 9, 0)), 1, next, at(1, 2, 100, 0)},
		{"floor beyond a count", State{}, take(1, 1, floor(0, math.MaxUint64, 100)), 0, next, at(0, 1<<26-1, 100, 0)},
		{"floor below", at(4, 4, 100, 0), take(1, 9, floor(4, 4, 100)), 0, 0, at(4, 4, 100, 0)},
		{"floor after a refund", at(1, 1, 100, 100), take(1, 1, floor(9, 9, 100)), 1, next, at(1, 2, 100, 100)},
		{"floor in the window after a refund", at(1, 1, 99, 99), take(1, 1, floor(9, 9, 100)), 1, next, at(1, 1, 100, 99)},
		{"floor in the one after that", at(1, 1, 98, 98), take(1, 9, floor(5, 5, 100)), 0, next, at(5, 5, 100, 0)},
		{"floor after a refund and a step back", at(1, 1, 4000, 3999), take(1, 1, floor(9, 9, 100)), 1, next, at(1, 2, 100, 99)},
		{"quiet of long ago", at(1, 1, 4000, 3000), take(1, 9, floor(9, 1, 100)), 0, next, at(9, 1, 100, 0)},
		{"quiet of the future", at(1, 1, 100, 101), take(1, 9, floor(9, 1, 100)), 0, next, at(9, 1, 100, 0)},

		{"refund of this window", at(4, 4, 100, 0), take(3, 3, kind(bucket.Refund), in(100)), 0, next, at(4, 1, 100, 100)},
		{"refund of more", at(4, 4, 100, 0), take(1, 6, kind(bucket.Refund)), 0, next, at(2, 0, 100, 100)},
		{"refund of everything", at(4, 4, 100, 0), take(1, math.MaxUint64, kind(bucket.Refund)), 0, next, at(0, 0, 100, 100)},
		{"refund of the window before", at(4, 4, 100, 0), take(1, 3, kind(bucket.Refund), in(99)), 0, next, at(1, 4, 100, 100)},
		{"refund of more of the window before", at(4, 4, 100, 0), take(1, 9, kind(bucket.Refund), in(99)), 0, next, at(0, 4, 100, 100)},
		{"refund of two before", at(4, 4, 100, 0), take(1, 3, kind(bucket.Refund), in(98)), 0, 0, at(4, 4, 100, 0)},
		{"refund of a window to come", at(4, 4, 100, 0), take(1, 3, kind(bucket.Refund), in(101)), 0, 0, at(4, 4, 100, 0)},
		{"refund of nothing", State{}, take(1, 3, kind(bucket.Refund)), 0, 0, at(0, 0, 100, 0)},
		{"back, then take", at(8, 4, 100, 0), take(9, 1, back(2), in(100)), 2, next, at(8, 4, 100, 100)},
		{"back below the floor", at(0, 5, 100, 0), take(9, 9, back(5), floor(0, 2, 100)), 0, next, at(0, 2, 100, 100)},
		{"reset", at(8, 4, 100, 0), take(1, 1, kind(bucket.Reset)), 0, next, at(0, 0, 100, 100)},

		{"denied and counted", at(8, 1, 100, 0), take(1, 4, counted), 0, next, at(8, 5, 100, 0)},
		{"some denied and counted", at(8, 0, 100, 0), take(3, 2, counted), 2, next, at(8, 6, 100, 0)},
		{"denied up to the limit", at(8, 4, 100, 0), take(math.MaxUint64, 3, counted), 0, next, at(8, 10, 100, 0)},
		{"denied at the limit", at(8, 10, 100, 0), take(1, 1, counted), 0, 0, at(8, 10, 100, 0)},
		{"denied above the limit", at(8, 12, 100, 0), take(1, 1, counted), 0, 0, at(8, 12, 100, 0)},
		{"denied of cost 0", at(8, 6, 100, 0), take(1, 0, counted), 0, 0, at(8, 6, 100, 0)},
		{"asked where denials count", at(8, 1, 100, 0), take(1, 4, counted, kind(bucket.Peek)), 0, 0, at(8, 1, 100, 0)},
		{"admitted where denials count", at(8, 1, 100, 0), take(1, 3, counted), 1, next, at(8, 4, 100, 0)},
	} {
		after, res := Apply(tt.s, now, NewRequest(&tt.op, now))
		want := Result{Granted: tt.granted, Level: bucket.Pack(tt.want.Previous, tt.want.Level), Write: tt.ttl > 0, TTL: tt.ttl}
		if res != want || res.Write && after != tt.want || !res.Write && after != tt.s {
			t.Errorf("%s: %+v, %+v\nwant %+v, %+v", tt.name, after, res, tt.want, want)
		}
	}
}

// A store that forgets what has expired grants what exact arithmetic on counts of all
// windows grants.
func TestSlidingIsExact(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(22, 1))
	for range 400 {
		per := time.Duration(1+rng.IntN(80_000)) * time.Second / 16
		per = max(per, time.Second)
		n := 1 + rng.Uint64N(1<<rng.UintN(10))
		shape, exact := mustSliding(t, n, per), newCounts(n, per)
		var s State
		now, expires := 1_763_596_800_000_000+rng.Uint64N(1<<40), uint64(0)
		for range 200 {
			now += rng.Uint64N(2*uint64(per/time.Microsecond)) >> rng.UintN(12)
			if now >= expires {
				s = State{}
			}
			window := now / exact.period
			op := bucket.Op{
				Kind: bucket.Kind(rng.IntN(3)), Shape: shape, Cost: rng.Uint64N(1 + n/2), Count: 1 + rng.Uint64N(3),
				CountDenied: rng.IntN(3) == 0, Window: window - rng.Uint64N(2)*rng.Uint64N(3),
			}
			granted := exact.do(&op, now)
			after, res := Apply(s, now, NewRequest(&op, now))
			if previous, current := bucket.Unpack(res.Level); res.Granted != granted || current != exact.of[window] || previous != exact.of[window-1] {
				t.Fatalf("%d per %v at %d: %+v granted %+v, want %d and counts of %d and %d", n, per, now, op, res, granted, exact.of[window-1], exact.of[window])
			}
			if res.Write {
				s, expires = after, now+uint64(res.TTL)*1000
			}
		}
	}
}

// counts is how many units count in each window.
type counts struct {
	n, period uint64 // period in µs
	of        map[uint64]uint64
}

func newCounts(n uint64, per time.Duration) *counts {
	return &counts{n, uint64(per / time.Microsecond), map[uint64]uint64{}}
}

func (c *counts) do(op *bucket.Op, now uint64) (granted uint64) {
	window := now / c.period
	switch op.Kind {
	case bucket.Refund:
		from := op.Window
		if from == window {
			off := min(c.of[window], op.Cost)
			c.of[window] -= off
			c.of[window-1] -= min(c.of[window-1], op.Cost-off)
		} else if from+1 == window {
			c.of[from] -= min(c.of[from], op.Cost)
		}
	case bucket.Peek, bucket.Take:
		before := c.of[window]
		for granted < op.Count && c.fits(now, op.Cost) {
			c.of[window] += op.Cost
			granted++
		}
		for range op.Count - granted {
			if op.CountDenied && c.of[window] < c.n {
				c.of[window] = min(c.n, c.of[window]+op.Cost)
			}
		}
		if op.Kind == bucket.Peek {
			c.of[window] = before
		}
	}
	return granted
}

// fits by rational numbers: current + ⌈previous · (1 - steps/K)⌉ + cost ≤ n, where
// steps is how many 62,500th parts of the window have passed.
func (c *counts) fits(now, cost uint64) bool {
	window := now / c.period
	steps := new(big.Rat).SetFrac64(int64(now%c.period), int64(c.period))
	steps.Mul(steps, big.NewRat(62_500, 1))
	whole := new(big.Int).Quo(steps.Num(), steps.Denom())
	share := new(big.Rat).Sub(big.NewRat(1, 1), new(big.Rat).SetFrac(whole, big.NewInt(62_500)))
	weight := share.Mul(share, new(big.Rat).SetInt(new(big.Int).SetUint64(c.of[window-1])))
	room := new(big.Rat).SetInt64(int64(c.n) - int64(c.of[window]) - int64(cost))
	return weight.Cmp(room) <= 0 // what is rounded up to a whole number fits as well in one
}
