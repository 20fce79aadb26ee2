package step

import (
	"math"
	"math/rand/v2"
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
			var k kernel
			now := uint64(rng.Uint32())
			for range 2000 {
				if now > maxSafe/2 {
					break // 140 years
				}
				now += gap(rng, &shape)
				ticks := now * shape.PerMicro()
				op := randomOp(rng, shape)
				age := rng.Uint64N(1 + rng.Uint64N(1+now))
				var res Result
				s, res = Apply(s, now, NewRequest(op, now-age))
				granted := k.do(&shape, now, age, op)
				if level := bucket.Level(k.tat, ticks); op.Kind != bucket.Peek && res.Level != level || res.Granted != granted {
					t.Fatalf("%d per %v burst %d: %+v at %d: granted %d level %d, kernel %d and %d",
						r.n, r.per, burst, op, now, res.Granted, res.Level, granted, level)
				}
			}
		}
	}
}

// kernel is a bucket in one virtual time, and until when floors are ignored.
type kernel struct{ tat, quiet uint64 }

func (k *kernel) do(s *bucket.Shape, now, age uint64, op *bucket.Op) (granted uint64) {
	ticks := now * s.PerMicro()
	quietUntil := now + uint64(s.MaxDrain()/time.Microsecond)
	if op.Kind == bucket.Reset {
		k.tat, k.quiet = 0, quietUntil
		return 0
	}
	before, heard := *k, now >= k.quiet
	back := op.Back
	if op.Kind == bucket.Refund {
		back = op.Cost
	}
	if back > 0 && k.tat > ticks {
		k.tat, k.quiet = bucket.Sub(k.tat, ticks, back), quietUntil
	}
	if floor := (now-age)*s.PerMicro() + op.Floor; heard && op.Floor > 0 {
		k.tat = max(k.tat, floor)
	}
	if op.Kind == bucket.Refund {
		return 0
	}
	tat := k.tat
	for granted < op.Count && s.Fits(tat, ticks, op.Cost) {
		tat = bucket.Add(tat, ticks, op.Cost)
		granted++
	}
	if k.tat = tat; op.Kind == bucket.Peek {
		*k = before
	}
	return granted
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
		op.Kind = bucket.Refund
	case 3:
		op.Kind = bucket.Reset
	case 4, 5:
		op.Floor = rng.Uint64N(2*s.Limit() + 1)
	case 9:
		op.Back = rng.Uint64N(s.Limit() + 1)
	case 10:
		op.Back, op.Floor = rng.Uint64N(s.Limit()+1), rng.Uint64N(s.Limit()+1)
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
	const quietUntil = 5 + 1_333_336 // MaxDrain after 5 µs
	back := func(cost uint64) bucket.Op { return bucket.Op{Kind: bucket.Refund, Shape: shape, Cost: cost} }
	take := func(count, cost, floor uint64) bucket.Op {
		return bucket.Op{Kind: bucket.Take, Shape: shape, Count: count, Cost: cost, Floor: floor}
	}
	for _, tt := range []struct {
		name  string
		s     State
		now   uint64 // and date
		op    bucket.Op
		want  Result
		after State
	}{
		{"empty", State{}, 5, take(1, u, 0), Result{Granted: 1, Level: u, Write: true, TTL: 335}, leaky(u, 5, u, 0)},
		{"some of many fit", State{}, 5, take(9, u, 0), Result{Granted: 2, Level: 2 * u, Write: true, TTL: 668}, leaky(2*u, 5, u, 0)},
		{"a denial writes nothing", leaky(2*u, 5, u, 0), 6, take(1, u, 0), Result{Level: 2*u - 3}, leaky(2*u, 5, u, 0)},
		{"the grace", leaky(2*u, 0, u, 0), 333_333, take(1, u, 0), Result{Granted: 1, Level: 2*u + 1, Write: true, TTL: 668}, leaky(2*u+1, 333_333, u, 0)},
		{"drained", leaky(2*u, 5, u, 0), 10 * sec, take(1, u, 0), Result{Granted: 1, Level: u, Write: true, TTL: 335}, leaky(u, 10*sec, u, 0)},
		{"clock steps back, allowed", leaky(u, 10*sec, u, 0), 5, take(1, u, 0), Result{Granted: 1, Level: 2 * u, Write: true, TTL: 668}, leaky(2*u, 5, u, 0)},
		{"clock steps back, denied", leaky(2*u, 10*sec, u, 0), 5, take(1, u, 0), Result{Level: 2 * u, Write: true, TTL: 668}, leaky(2*u, 5, u, 0)},
		{"floor above", leaky(u, 5, u, 0), 5, take(1, u, 2*u), Result{Level: 2 * u, Write: true, TTL: 668}, leaky(2*u, 5, u, 0)},
		{"floor below", leaky(2*u, 5, u, 0), 5, take(1, u, u), Result{Level: 2 * u}, leaky(2*u, 5, u, 0)},
		{"floor beyond the limit", State{}, 5, take(1, u, 9*u), Result{Level: 9 * u, Write: true, TTL: 3002}, leaky(9*u, 5, u, 0)},
		{"cost 0", leaky(u, 5, u, 0), 5, take(7, 0, 0), Result{Granted: 7, Level: u}, leaky(u, 5, u, 0)},
		{"cost 0 over the limit", leaky(9*u, 5, u, 0), 5, take(7, 0, 0), Result{Level: 9 * u}, leaky(9*u, 5, u, 0)},
		{"endless cost", State{}, 5, take(1, math.MaxUint64, 0), Result{}, State{}},
		{"other rate before", leaky(10, 5, 20, 0), 5, take(1, u, 0), Result{Granted: 1, Level: 3 * u / 2, Write: true, TTL: 502}, leaky(3*u/2, 5, u, 0)},
		{"refund to empty", leaky(u, 5, u, 0), 5, back(2 * u), Result{Write: true, TTL: 1335}, leaky(0, 5, u, quietUntil)},
		{"refund of some", leaky(2*u, 5, u, 0), 5, back(u), Result{Level: u, Write: true, TTL: 1335}, leaky(u, 5, u, quietUntil)},
		{"refund of nothing", State{}, 5, back(u), Result{}, State{}},
		{"refund of nothing, again", leaky(0, 5, u, quietUntil), 6, back(u), Result{}, leaky(0, 5, u, quietUntil)},
		{"peek", leaky(u, 5, u, 0), 5, bucket.Op{Kind: bucket.Peek, Shape: shape, Cost: u, Count: 5}, Result{Granted: 1, Level: u}, leaky(u, 5, u, 0)},
		{"reset", leaky(u, 5, u, 0), 5, bucket.Op{Kind: bucket.Reset, Shape: shape}, Result{Write: true, TTL: 1335}, leaky(0, 5, u, quietUntil)},
		{"reset of nothing", State{}, 5, bucket.Op{Kind: bucket.Reset, Shape: shape}, Result{Write: true, TTL: 1335}, leaky(0, 5, u, quietUntil)},
		{"floor after a reset", leaky(0, 5, u, quietUntil), quietUntil - 1, take(1, u, u), Result{Granted: 1, Level: u, Write: true, TTL: 335}, leaky(u, quietUntil-1, u, quietUntil)},
		{"floor long after", leaky(0, 5, u, quietUntil), quietUntil, take(1, u, u), Result{Granted: 1, Level: 2 * u, Write: true, TTL: 668}, leaky(2*u, quietUntil, u, 0)},
		{"quiet from before a step back", leaky(0, 9*sec, u, 10*sec), 5, take(1, u, u), Result{Granted: 1, Level: u, Write: true, TTL: 1335}, leaky(u, 5, u, quietUntil)},
		{"back, then take", leaky(2*u, 5, u, 0), 5, bucket.Op{Kind: bucket.Take, Shape: shape, Cost: u, Count: 5, Back: u}, Result{Granted: 1, Level: 2 * u, Write: true, TTL: 1335}, leaky(2*u, 5, u, quietUntil)},
		{"back below the floor", leaky(2*u, 5, u, 0), 5, bucket.Op{Kind: bucket.Take, Shape: shape, Cost: 9 * u, Count: 1, Back: 2 * u, Floor: u}, Result{Level: u, Write: true, TTL: 1335}, leaky(u, 5, u, quietUntil)},
	} {
		after, got := Apply(tt.s, tt.now, NewRequest(&tt.op, tt.now))
		if got != tt.want || after != tt.after {
			t.Errorf("%s: %+v and %+v, want %+v and %+v", tt.name, got, after, tt.want, tt.after)
		}
	}
}

// An operation that is dated: what is late, and what is left of a floor.
func TestStepInTime(t *testing.T) {
	t.Parallel()
	shape := newShape(t, 1, time.Second, 2)
	const u = 1_000_000
	for _, tt := range []struct {
		name      string
		now, date uint64
		patience  time.Duration
		late      bool
		level     uint64 // of a take of one with a floor of u
	}{
		{"at once", 500, 500, time.Millisecond, false, 2 * u},
		{"just in time", 1500, 500, time.Millisecond, false, 2*u - 1000},
		{"late", 1501, 500, time.Millisecond, true, 0},
		{"no patience", 1501, 500, 0, false, 2*u - 1001},
		{"long after", 900 * u, 500, 0, false, u},
		{"from the future", 499, 500, time.Millisecond, true, 0},
		{"a floor from the future", 499, 500, 0, false, u},
		{"of unknown date", 500, 0, time.Millisecond, false, u},
		{"of unknown date, later", 5000, 0, time.Millisecond, true, 0},
		{"less than the clock tells", 501, 500, time.Nanosecond, true, 0},
	} {
		op := bucket.Op{Kind: bucket.Take, Shape: shape, Cost: u, Count: 1, Floor: u, Patience: tt.patience}
		after, got := Apply(State{}, tt.now, NewRequest(&op, tt.date))
		if got.Late != tt.late || got.Level != tt.level || after.Level != tt.level {
			t.Errorf("%s: %+v and %+v, want %+v", tt.name, got, after, tt)
		}
	}
}

// leaky is the state of a leaky bucket.
func leaky(level, last, unit, quiet uint64) State {
	return State{Level: level, Last: last, Unit: unit, Quiet: quiet}
}
