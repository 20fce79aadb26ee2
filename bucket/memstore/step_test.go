package memstore

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// rates spans what is allowed: slow, fast, and such whose unit is not a whole
// number of µs.
var rates = []struct {
	n   uint64
	per time.Duration
}{
	{1, 24 * time.Hour},
	{10, time.Minute},
	{1, time.Second},
	{3, time.Second},
	{7, 15 * time.Minute},
	{100, time.Second},
	{300_000, time.Second},
	{1_000_000, time.Second},
	{65_536, time.Second},
	{bucket.MaxRate, time.Second},
}

func newShape(t testing.TB, n uint64, per time.Duration, burst uint64) bucket.Shape {
	t.Helper()
	s, err := bucket.NewShape(n, per, burst)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Step with a level and a time is the same bucket as the kernel with one
// virtual time, as long as the clock goes forward.
func TestStepIsTheKernel(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, r := range rates {
		for _, burst := range []uint64{1, 2, 20, 1000} {
			shape := newShape(t, r.n, r.per, burst)
			var s State
			var tat uint64
			now := uint64(rng.Uint32())
			for range 2000 {
				if now > maxSafe/2 {
					break // 140 years
				}
				now += gap(rng, &shape)
				ticks := now * shape.PerMicro()
				op := randomOp(rng, shape)
				var res Result
				s, res = Step(s, now, NewRequest(op))
				var granted uint64
				tat, granted = kernel(&shape, tat, ticks, op)
				if level := bucket.Level(tat, ticks); op.Kind != bucket.Peek && res.Level != level || res.Granted != granted {
					t.Fatalf("%d per %v burst %d: %+v at %d: granted %d level %d, kernel %d and %d",
						r.n, r.per, burst, op, now, res.Granted, res.Level, granted, level)
				}
			}
		}
	}
}

func kernel(s *bucket.Shape, tat, now uint64, op *bucket.Op) (after, granted uint64) {
	if op.Kind == bucket.EmptyOut {
		return 0, 0
	}
	start := tat
	if op.Floor > bucket.Level(tat, now) {
		tat = now + op.Floor
	}
	if op.Kind == bucket.GiveBack {
		return bucket.Refund(tat, now, op.Cost), 0
	}
	for granted < op.Count && s.Fits(tat, now, op.Cost) {
		tat = bucket.Add(tat, now, op.Cost)
		granted++
	}
	if op.Kind == bucket.Peek {
		return start, granted
	}
	return tat, granted
}

// gap is a step of time around what matters: nothing, one unit, the whole
// bucket.
func gap(rng *rand.Rand, s *bucket.Shape) uint64 {
	us := func(ticks uint64) uint64 { return uint64(s.Duration(ticks) / time.Microsecond) }
	switch rng.IntN(6) {
	case 0:
		return 0
	case 1:
		return 1
	case 2:
		return us(s.Limit()) + rng.Uint64N(3)
	case 3:
		return rng.Uint64N(us(s.Limit()) + 2)
	default:
		return rng.Uint64N(2*us(s.Unit()) + 2)
	}
}

func randomOp(rng *rand.Rand, s bucket.Shape) *bucket.Op {
	op := &bucket.Op{Kind: bucket.Take, Shape: s, Cost: s.Cost(1 + rng.Uint64N(3)), Count: 1}
	switch rng.IntN(20) {
	case 0:
		op.Kind = bucket.Peek
	case 1, 2:
		op.Kind = bucket.GiveBack
	case 3:
		op.Kind = bucket.EmptyOut
	case 4, 5:
		op.Floor = rng.Uint64N(s.Limit() + 1)
	case 6, 7, 8:
		op.Count = 1 + rng.Uint64N(5)
	}
	return op
}

func TestStep(t *testing.T) {
	t.Parallel()
	// 3/s: 3 ticks per µs, a unit is 10^6 ticks, two fit, and 2 ticks of grace.
	shape := newShape(t, 3, time.Second, 2)
	const u, sec = 1_000_000, 1_000_000
	take := func(count, cost, floor uint64) bucket.Op {
		return bucket.Op{Kind: bucket.Take, Shape: shape, Count: count, Cost: cost, Floor: floor}
	}
	for _, tt := range []struct {
		name  string
		s     State
		now   uint64
		op    bucket.Op
		want  Result
		after State
	}{
		{"empty", State{}, 5, take(1, u, 0), Result{Granted: 1, Level: u, Write: true, TTL: 335}, State{u, 5, u}},
		{"some of many fit", State{}, 5, take(9, u, 0), Result{Granted: 2, Level: 2 * u, Write: true, TTL: 668}, State{2 * u, 5, u}},
		{"a denial writes nothing", State{2 * u, 5, u}, 6, take(1, u, 0), Result{Level: 2*u - 3}, State{2 * u, 5, u}},
		{"the grace", State{2 * u, 0, u}, 333_333, take(1, u, 0), Result{Granted: 1, Level: 2*u + 1, Write: true, TTL: 668}, State{2*u + 1, 333_333, u}},
		{"drained", State{2 * u, 5, u}, 10 * sec, take(1, u, 0), Result{Granted: 1, Level: u, Write: true, TTL: 335}, State{u, 10 * sec, u}},
		{"clock steps back, allowed", State{u, 10 * sec, u}, 5, take(1, u, 0), Result{Granted: 1, Level: 2 * u, Write: true, TTL: 668}, State{2 * u, 5, u}},
		{"clock steps back, denied", State{2 * u, 10 * sec, u}, 5, take(1, u, 0), Result{Level: 2 * u, Write: true, TTL: 668}, State{2 * u, 5, u}},
		{"floor above", State{u, 5, u}, 5, take(1, u, 2*u), Result{Level: 2 * u, Write: true, TTL: 668}, State{2 * u, 5, u}},
		{"floor below", State{2 * u, 5, u}, 5, take(1, u, u), Result{Level: 2 * u}, State{2 * u, 5, u}},
		{"floor beyond the limit", State{}, 5, take(1, u, 9*u), Result{Level: 9 * u, Write: true, TTL: 3002}, State{9 * u, 5, u}},
		{"cost 0", State{u, 5, u}, 5, take(7, 0, 0), Result{Granted: 7, Level: u}, State{u, 5, u}},
		{"cost 0 over the limit", State{9 * u, 5, u}, 5, take(7, 0, 0), Result{Level: 9 * u}, State{9 * u, 5, u}},
		{"endless cost", State{}, 5, take(1, math.MaxUint64, 0), Result{}, State{}},
		{"other rate before", State{10, 5, 20}, 5, take(1, u, 0), Result{Granted: 1, Level: 3 * u / 2, Write: true, TTL: 502}, State{3 * u / 2, 5, u}},
		{"refund to empty", State{u, 5, u}, 5, bucket.Op{Kind: bucket.GiveBack, Shape: shape, Cost: 2 * u}, Result{Write: true}, State{}},
		{"refund of nothing", State{}, 5, bucket.Op{Kind: bucket.GiveBack, Shape: shape, Cost: u}, Result{}, State{}},
		{"peek", State{u, 5, u}, 5, bucket.Op{Kind: bucket.Peek, Shape: shape, Cost: u, Count: 5}, Result{Granted: 1, Level: u}, State{u, 5, u}},
		{"reset", State{u, 5, u}, 5, bucket.Op{Kind: bucket.EmptyOut, Shape: shape}, Result{Write: true}, State{}},
	} {
		after, got := Step(tt.s, tt.now, NewRequest(&tt.op))
		if got != tt.want || after != tt.after {
			t.Errorf("%s: %+v and %+v, want %+v and %+v", tt.name, got, after, tt.want, tt.after)
		}
	}
}

func TestParseState(t *testing.T) {
	t.Parallel()
	for _, s := range []State{{1, 2, 3}, {0, 0, 1}, {bucket.MaxPortable, maxSafe, maxSafe}} {
		if got, ok := ParseState(s.Encode()); !ok || got != s {
			t.Errorf("ParseState(%q) = %+v, %v", s.Encode(), got, ok)
		}
	}
	numbers := func(n ...float64) string {
		b := []byte{stateVersion}
		for _, f := range n {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
		}
		return string(b)
	}
	for _, v := range []string{
		"", "1:2:3", strings.Repeat("0C", 12) + "0", "\x02" + numbers(1, 2, 3)[1:], numbers(1, 2), numbers(1, 2, 3) + "x",
		numbers(-1, 2, 3), numbers(1, -2, 3), numbers(1, 2, 0), numbers(1, 2, -3), numbers(1.5, 2, 3), numbers(1, 2.5, 3),
		numbers(1, 2, 3.5), numbers(1<<52+1, 2, 3), numbers(1, 1<<53, 3), numbers(1, 2, 1<<53), numbers(math.NaN(), 2, 3),
		numbers(1, math.NaN(), 3), numbers(1, 2, math.NaN()), numbers(math.Inf(1), 2, 3), numbers(1, 2, math.Inf(1)),
	} {
		if s, ok := ParseState(v); ok {
			t.Errorf("ParseState(%q) = %+v, want none", v, s)
		}
	}
}
