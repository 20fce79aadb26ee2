package step

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

func mustLog(t *testing.T, n uint64, per time.Duration) bucket.Shape {
	t.Helper()
	shape, err := bucket.NewSlidingLog(n, per)
	if err != nil {
		t.Fatal(err)
	}
	return shape
}

func TestLogSteps(t *testing.T) {
	t.Parallel()
	const sec, now = 1_000_000, 100_000_000
	const full = 1002         // TTL in ms of what was taken just now
	const quiet = now + 2*sec // after a refund
	const quietly = 2002      // its TTL
	shape := mustLog(t, 4, time.Second)
	of := func(ages ...uint64) State { // in µs
		times := make([]uint64, len(ages))
		for i, age := range ages {
			times[i] = now - age
		}
		return State{Algorithm: bucket.SlidingLog, Log: NewTimes(times...)}
	}
	hushed := func(s State, quiet uint64) State { s.Quiet = quiet; return s }
	type change = func(*bucket.Op)
	kind := func(k bucket.Kind) change { return func(op *bucket.Op) { op.Kind = k } }
	floor := func(n uint64) change { return func(op *bucket.Op) { op.Floor = n } }
	back := func(n uint64) change { return func(op *bucket.Op) { op.Back = n } }
	take := func(count, cost uint64, with ...change) bucket.Op {
		op := bucket.Op{Kind: bucket.Take, Shape: shape, Count: count, Cost: cost}
		for _, set := range with {
			set(&op)
		}
		return op
	}
	for _, tt := range []struct {
		name string
		s    State
		age  uint64 // of the operation
		op   bucket.Op
		want Result // with Write if TTL is set
		then State
	}{
		{"empty", State{}, 0, take(1, 1), Result{Granted: 1, Level: 1, TTL: full}, of(0)},
		{"more than fits", of(5), 0, take(9, 1), Result{Granted: 3, Level: 4 + sec - 5, TTL: full}, of(5, 0, 0, 0)},
		{"of some cost", of(5), 0, take(9, 2), Result{Granted: 1, Level: 3, TTL: full}, of(5, 0, 0)},
		{"full", of(9, 8, 7, 6), 0, take(1, 1), Result{Level: 4 + sec - 9}, of(9, 8, 7, 6)},
		{"until the last µs", of(sec-1, 8, 7, 6), 0, take(1, 1), Result{Level: 4 + 1}, of(sec-1, 8, 7, 6)},
		{"and not longer", of(sec, 8, 7, 6), 0, take(1, 1), Result{Granted: 1, Level: 4 + sec - 8, TTL: full}, of(8, 7, 6, 0)},
		{"all over", of(3*sec, 2*sec, sec), 0, take(1, 1), Result{Granted: 1, Level: 1, TTL: full}, of(0)},
		{"cost 0 at the limit", of(9, 8, 7, 6), 0, take(7, 0), Result{Granted: 7, Level: 4 + sec - 9}, of(9, 8, 7, 6)},
		{"endless cost", of(9), 0, take(1, math.MaxUint64), Result{Level: 1}, of(9)},
		{"asked", of(9), 0, take(9, 2, kind(bucket.Peek)), Result{Granted: 1, Level: 1}, of(9)},
		{"the limit was lowered", of(9, 8, 7, 6, 5, 4), 0, take(1, 1), Result{Level: 4 + sec - 7}, of(9, 8, 7, 6, 5, 4)},
		{"and again one fits", of(sec+9, sec+8, sec, 6, 5, 4), 0, take(9, 1), Result{Granted: 1, Level: 4 + sec - 6, TTL: full}, of(6, 5, 4, 0)},
		{"a fixed window's", State{Algorithm: bucket.FixedWindow, Level: 9, Last: 100, Unit: sec}, 0, take(1, 1), Result{Granted: 1, Level: 1, TTL: full}, of(0)},

		{"clock stepped back, admitted", State{Algorithm: bucket.SlidingLog, Log: NewTimes(now+3, now+5)}, 0, take(1, 1), Result{Granted: 1, Level: 3, TTL: full}, of(2, 0, 0)},
		{"clock stepped back, denied", State{Algorithm: bucket.SlidingLog, Log: NewTimes(now+3, now+5, now+5, now+6)}, 0, take(1, 1), Result{Level: 4 + sec - 3, TTL: full}, of(3, 1, 1, 0)},
		{"clock stepped back, some over", State{Algorithm: bucket.SlidingLog, Log: NewTimes(now, now+sec)}, 0, take(1, 9), Result{Level: 1, TTL: full}, of(0)},

		{"floor above", of(9), 0, take(1, 1, floor(2)), Result{Granted: 1, Level: 3, TTL: full}, of(sec/2, 9, 0)},
		{"floor below", of(9, 8), 0, take(1, 9, floor(2)), Result{Level: 2}, of(9, 8)},
		{"floor over an older unit", of(sec/2+1, 9), 0, take(1, 9, floor(2)), Result{Level: 2, TTL: 1001}, of(sec/2, 9)},
		{"floor over the latest of older units", of(sec-1, sec/2+1, 9), 0, take(1, 9, floor(2)), Result{Level: 3, TTL: 1001}, of(sec-1, sec/2, 9)},
		{"floor again, a quarter later", of(3*sec/4, 3*sec/4), 0, take(1, 9, floor(2)), Result{Level: 2, TTL: 502}, of(sec/2, sec/2)},
		{"floor at the half", of(sec/2, 9), 0, take(1, 9, floor(2)), Result{Level: 2}, of(sec/2, 9)},
		{"floor of a quarter ago", of(9), sec / 4, take(1, 9, floor(2)), Result{Level: 2, TTL: 1001}, of(3*sec/4, 9)},
		{"floor of half a period ago", of(9), sec / 2, take(1, 9, floor(2)), Result{Level: 1}, of(9)},
		{"floor beyond the limit", of(9), 0, take(1, 1, floor(99)), Result{Level: 4 + sec/2, TTL: 1001}, of(sec/2, sec/2, sec/2, 9)},
		{"floor over all older units", of(sec/2+9, sec/2+8, 9), 0, take(1, 1, floor(3)), Result{Granted: 1, Level: 4 + sec/2, TTL: full}, of(sec/2, sec/2, 9, 0)},
		{"floor of no date", of(9), now, take(1, 9, floor(3)), Result{Level: 1}, of(9)},
		{"floor while quiet", hushed(of(9), now+1), 0, take(1, 1, floor(3)), Result{Granted: 1, Level: 2, TTL: full}, hushed(of(9, 0), now+1)},
		{"floor long after", hushed(of(9), now), 0, take(1, 9, floor(2)), Result{Level: 2, TTL: 1001}, of(sec/2, 9)},
		{"quiet from before a step back", hushed(of(9), now+9*sec), 0, take(1, 1, floor(3)), Result{Granted: 1, Level: 2, TTL: quietly}, hushed(of(9, 0), quiet)},

		{"refund", of(9, 8, 7), 0, take(1, 2, kind(bucket.Refund)), Result{Level: 1, TTL: quietly}, hushed(of(9), quiet)},
		{"refund of more", of(9, 8, 7), 0, take(1, math.MaxUint64, kind(bucket.Refund)), Result{TTL: quietly}, hushed(of(), quiet)},
		{"refund of nothing", of(sec), 0, take(1, 1, kind(bucket.Refund)), Result{}, of(sec)},
		{"back, then take", of(9, 8, 7, 6), 0, take(1, 1, back(2)), Result{Granted: 1, Level: 3, TTL: quietly}, hushed(of(9, 8, 0), quiet)},
		{"back below the floor", of(9, 8), 0, take(1, 9, back(2), floor(1)), Result{Level: 1, TTL: quietly}, hushed(of(sec/2), quiet)},
		{"reset", of(9, 8), 0, take(1, 1, kind(bucket.Reset)), Result{TTL: quietly}, hushed(of(), quiet)},
	} {
		after, got := Apply(tt.s, now, NewRequest(&tt.op, now-tt.age))
		if tt.want.Write = tt.want.TTL > 0; got != tt.want || after != tt.then {
			t.Errorf("%s: %+v and %v quiet until %d\nwant %+v and %v, %d", tt.name, got, after.Log.All(), after.Quiet, tt.want, tt.then.Log.All(), tt.then.Quiet)
		}
	}
	op := take(1, 1, floor(3))
	if _, got := Apply(State{}, now-1, NewRequest(&op, now)); got.Level != 1 {
		t.Errorf("a floor from the future: %+v", got)
	}
}

// A store that forgets what has expired grants what a list of all units grants.
func TestLogIsExact(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(22, 2))
	for range 400 {
		per := time.Second + time.Duration(rng.Uint64N(1<<rng.UintN(40)))*time.Microsecond
		per = min(per, bucket.MaxPeriod)
		n := 1 + rng.Uint64N(1<<rng.UintN(6))
		l := &units{n: n, period: uint64(per / time.Microsecond)}
		shape := mustLog(t, n, per)
		var s State
		now, expires := 1_763_596_800_000_000+rng.Uint64N(1<<40), uint64(0)
		for range 200 {
			now += rng.Uint64N(2*l.period) >> rng.UintN(12)
			if now >= expires {
				s = State{}
			}
			op := bucket.Op{Kind: bucket.Kind(rng.IntN(3)), Shape: shape, Cost: rng.Uint64N(1 + n/2), Count: 1 + rng.Uint64N(3)}
			if rng.IntN(8) == 0 {
				op.Back = rng.Uint64N(n + 1)
			}
			granted, level := l.do(&op, now)
			after, res := Apply(s, now, NewRequest(&op, now))
			if res.Granted != granted || res.Level != level {
				t.Fatalf("%d per %v at %d: %+v: %+v, want %d and a level of %d", n, per, now, op, res, granted, level)
			}
			if res.Write {
				s, expires = after, now+uint64(res.TTL)*1000
			}
		}
	}
}

// units is when each unit was taken.
type units struct {
	n, period uint64
	at        []uint64
}

// count of those that count at a time.
func (l *units) count(now uint64) (n uint64) {
	for _, t := range l.at {
		if now < t+l.period {
			n++
		}
	}
	return n
}

func (l *units) do(op *bucket.Op, now uint64) (granted, level uint64) {
	before := slices.Clone(l.at)
	back := op.Back
	if op.Kind == bucket.Refund {
		back = op.Cost
	}
	for range min(back, l.count(now)) {
		l.at = l.at[:len(l.at)-1]
	}
	if op.Kind != bucket.Refund {
		for taken := l.count(now); granted < op.Count && taken+op.Cost <= l.n; taken += op.Cost {
			granted++
		}
	}
	if op.Kind == bucket.Take {
		for range granted * op.Cost {
			l.at = append(l.at, now)
		}
	}
	if level = l.count(now); level >= l.n {
		level = l.n + l.wait(now)
	}
	if op.Kind == bucket.Peek {
		l.at = before
	}
	return granted, level
}

// wait is how many µs it takes until one unit fits: the least for which that is so.
func (l *units) wait(now uint64) uint64 {
	low, high := uint64(0), l.period
	for low < high {
		if half := (low + high) / 2; l.count(now+half) < l.n {
			high = half
		} else {
			low = half + 1
		}
	}
	return low
}
