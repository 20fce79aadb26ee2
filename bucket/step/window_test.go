package step

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

func mustWindow(t *testing.T, n uint64, per time.Duration) bucket.Shape {
	t.Helper()
	shape, err := bucket.NewWindow(n, per)
	if err != nil {
		t.Fatal(err)
	}
	return shape
}

func TestWindowSteps(t *testing.T) {
	t.Parallel()
	const sec, now = 1_000_000, 100_250_000 // a quarter into window 100
	shape := mustWindow(t, 5, time.Second)
	at := func(count, window, quiet uint64) State {
		return State{Algorithm: bucket.FixedWindow, Level: count, Last: window, Unit: sec, Quiet: quiet}
	}
	take := func(count, cost uint64) bucket.Op {
		return bucket.Op{Kind: bucket.Take, Shape: shape, Count: count, Cost: cost}
	}
	with := func(op bucket.Op, set func(*bucket.Op)) bucket.Op { set(&op); return op }
	floor := func(op bucket.Op, floor, window uint64) bucket.Op {
		return with(op, func(op *bucket.Op) { op.Floor, op.Window = floor, window })
	}
	back := func(n, window uint64) bucket.Op {
		return with(take(1, 1), func(op *bucket.Op) { op.Back, op.Window = n, window })
	}
	denied := func(op bucket.Op) bucket.Op { return with(op, func(op *bucket.Op) { op.CountDenied = true }) }
	kind := func(op bucket.Op, k bucket.Kind) bucket.Op {
		return with(op, func(op *bucket.Op) { op.Kind = k })
	}
	written := func(granted, level uint64) Result {
		return Result{Granted: granted, Level: level, Write: true, TTL: 752}
	}
	for _, tt := range []struct {
		name  string
		s     State
		op    bucket.Op
		want  Result
		after State
	}{
		{"empty", State{}, take(1, 1), written(1, 1), at(1, 100, 0)},
		{"some of many", at(3, 100, 0), take(9, 1), written(2, 5), at(5, 100, 0)},
		{"full", at(5, 100, 0), take(1, 1), Result{Level: 5}, at(5, 100, 0)},
		{"the window before", at(5, 99, 0), take(1, 1), written(1, 1), at(1, 100, 0)},
		{"clock stepped back, admitted", at(3, 4000, 0), take(1, 1), written(1, 4), at(4, 100, 0)},
		{"clock stepped back, denied", at(5, 4000, 0), take(1, 1), written(0, 5), at(5, 100, 0)},
		{"another period's", State{Algorithm: bucket.FixedWindow, Level: 5, Last: 100, Unit: 60 * sec}, take(1, 1), written(1, 1), at(1, 100, 0)},
		{"a leaky bucket's", leaky(5, now, 1, 0), take(1, 1), written(1, 1), at(1, 100, 0)},
		{"floor above", at(2, 100, 0), floor(take(1, 1), 4, 100), written(1, 5), at(5, 100, 0)},
		{"floor below", at(4, 100, 0), floor(take(1, 2), 2, 100), Result{Level: 4}, at(4, 100, 0)},
		{"floor of the window before", at(2, 100, 0), floor(take(1, 1), 5, 99), written(1, 3), at(3, 100, 0)},
		{"floor of a window to come", at(2, 100, 0), floor(take(1, 1), 5, 101), written(1, 3), at(3, 100, 0)},
		{"floor of no window", at(2, 100, 0), floor(take(1, 1), 5, 0), written(1, 3), at(3, 100, 0)},
		{"floor after a refund", at(2, 100, 100), floor(take(1, 1), 5, 100), written(1, 3), at(3, 100, 100)},
		{"floor after a refund a window ago", at(2, 99, 99), floor(take(1, 1), 5, 100), written(0, 5), at(5, 100, 0)},
		{"back", at(5, 100, 0), back(2, 100), written(1, 4), at(4, 100, 100)},
		{"back of the window before", at(5, 100, 0), back(2, 99), Result{Level: 5}, at(5, 100, 0)},
		{"refund", at(2, 100, 0), kind(take(1, 3), bucket.Refund), written(0, 0), at(0, 100, 100)},
		{"refund of the window before", at(2, 100, 0), kind(floor(take(1, 1), 0, 99), bucket.Refund), Result{Level: 2}, at(2, 100, 0)},
		{"peek", at(2, 100, 0), kind(take(9, 1), bucket.Peek), Result{Granted: 3, Level: 2}, at(2, 100, 0)},
		{"reset", at(5, 100, 0), kind(take(1, 1), bucket.Reset), written(0, 0), at(0, 100, 100)},
		{"denied and counted", at(3, 100, 0), denied(take(1, 3)), written(0, 5), at(5, 100, 0)},
		{"some denied and counted", at(0, 100, 0), denied(take(3, 2)), written(2, 5), at(5, 100, 0)},
		{"admitted where denials count", at(3, 100, 0), denied(take(1, 2)), written(1, 5), at(5, 100, 0)},
		{"full where denials count", at(5, 100, 0), denied(take(1, 1)), Result{Level: 5}, at(5, 100, 0)},
		{"over the limit", at(9, 100, 0), denied(take(1, 0)), Result{Level: 9}, at(9, 100, 0)},
	} {
		after, res := Apply(tt.s, now, NewRequest(&tt.op, now))
		if res != tt.want || after != tt.after {
			t.Errorf("%s: %+v, %+v\nwant %+v, %+v", tt.name, after, res, tt.after, tt.want)
		}
	}
	op := take(1, 1)
	if after, res := Apply(at(5, 100, 0), now, NewRequest(&bucket.Op{Kind: bucket.Take, Shape: mustLeaky(t), Cost: 1, Count: 1}, now)); res.Granted != 1 || after.Algorithm != bucket.LeakyBucket {
		t.Errorf("a leaky bucket where a window was: %+v, %+v", after, res)
	}
	op.Patience = time.Second
	if _, res := Apply(State{}, now+2*sec, NewRequest(&op, now)); !res.Late {
		t.Errorf("a late take: %+v", res)
	}
}

func mustLeaky(t *testing.T) bucket.Shape {
	t.Helper()
	shape, err := bucket.NewShape(1, time.Second, 5)
	if err != nil {
		t.Fatal(err)
	}
	return shape
}

// A store that forgets what has expired grants each window what a map of counters
// by window grants.
func TestWindowIsAMapOfCounters(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(14, 2))
	for range 300 {
		per := time.Duration(1+rng.IntN(5000)) * time.Second
		n := 1 + rng.Uint64N(20)
		shape, counts := mustWindow(t, n, per), map[uint64]uint64{}
		var s State
		now, expires := 1_763_596_800_000_000+rng.Uint64N(1<<40), uint64(0)
		for range 200 {
			now += rng.Uint64N(uint64(per/time.Microsecond)) >> rng.UintN(8)
			if now >= expires {
				s = State{}
			}
			op := bucket.Op{Kind: bucket.Take, Shape: shape, Cost: rng.Uint64N(4), Count: 1 + rng.Uint64N(3)}
			window := time.UnixMicro(int64(now)).UnixNano() / int64(per)
			want := uint64(0)
			for range op.Count {
				if counts[uint64(window)]+op.Cost <= n {
					counts[uint64(window)] += op.Cost
					want++
				}
			}
			after, res := Apply(s, now, NewRequest(&op, now))
			if res.Granted != want || res.Level != counts[uint64(window)] {
				t.Fatalf("%d per %v at %d: %+v granted %+v, want %d of level %d", n, per, now, op, res, want, counts[uint64(window)])
			}
			if res.Write {
				s, expires = after, now+uint64(res.TTL)*1000
			}
		}
	}
}
