package bucket

import (
	"errors"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// FuzzCarry compares converted levels with whole numbers of any size: rounded down in a bucket,
// up in a sketch, and never above a full bucket of the new limit.
func FuzzCarry(f *testing.F) {
	f.Add(uint64(1), uint64(86_400_000_000), uint64(5), uint64(1_000_000_000), uint64(1_000_000), uint64(7), uint64(1<<40), uint64(9))
	f.Add(uint64(1), uint64(86_400_000_000), uint64(5), uint64(1_000_000_000), uint64(1_000_000), uint64(7), uint64(1<<40), uint64(1<<50))
	f.Add(uint64(70000), uint64(1_000_000), uint64(20), uint64(1), uint64(1_000_000), uint64(200), uint64(1), uint64(0))
	f.Add(uint64(70000), uint64(1_000_000), uint64(20), uint64(1), uint64(1_000_000), uint64(200), uint64(1000), uint64(9)) // more than the grace
	f.Fuzz(func(t *testing.T, n1, per1, b1, n2, per2, b2, level, now uint64) {
		from, err1 := NewShape(n1, time.Duration(per1%(1<<50))*time.Microsecond, b1)
		to, err2 := NewShape(n2, time.Duration(per2%(1<<50))*time.Microsecond, b2)
		if err1 != nil || err2 != nil {
			return
		}
		level %= 2 * (from.most + 1)
		at := time.Duration(now % uint64(min(from.LastTime(), to.LastTime())))
		c := Carry{From: from, To: to, FromNow: from.Ticks(at), Now: to.Ticks(at)}
		if now := c.ticks(c.FromNow); now != c.Now {
			t.Fatalf("%v: tick %d is %d by the new limit, want %d", at, c.FromNow, now, c.Now)
		}
		number := func(v uint64) *big.Int { return new(big.Int).SetUint64(v) }
		exact, rest := new(big.Int).QuoRem(new(big.Int).Mul(number(level), number(to.unit)), number(from.unit), new(big.Int))
		up := new(big.Int).Set(exact)
		if rest.Sign() > 0 {
			up.Add(up, big.NewInt(1))
		}
		for _, got := range []struct {
			name string
			got  uint64
			want *big.Int
		}{{"down", c.Level(level), exact}, {"up", c.LevelUp(level), up}} {
			if got.want.Cmp(number(maxLimit)) > 0 {
				got.want = number(maxLimit)
			}
			if number(got.got).Cmp(got.want) != 0 {
				t.Fatalf("%s: level %d of unit %d is %d of unit %d, want %v", got.name, level, from.unit, got.got, to.unit, got.want)
			}
		}
		held := Level(c.state(c.FromNow+level), c.Now)
		switch {
		case held > to.limit:
			t.Fatalf("%d ticks in a bucket of %d", held, to.limit)
		case number(held).Cmp(exact) > 0:
			t.Fatalf("%d ticks of level %d, which is %v", held, level, exact)
		case held < to.limit && number(held).Cmp(number(c.Level(level-min(level, from.Grace())))) != 0:
			t.Fatalf("%d ticks of level %d", held, level)
		}
	})
}

// A table of another size has all buckets of the one before, at the same place in time, whatever
// their digests; what is charged to the old one later is charged to both.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	from, err := NewShape(10, time.Second, 20)
	if err != nil {
		t.Fatal(err)
	}
	to, err := NewShape(3, time.Minute, 12)
	if err != nil {
		t.Fatal(err)
	}
	for _, sizes := range [][2]int{{64, 64}, {64, 65}, {64, 200}, {200, 64}, {300, 7}, {1, 50}, {1000, 999}} {
		var old, next Table
		if err := old.Init(from, sizes[0]); err != nil {
			t.Fatal(err)
		}
		if err := next.InitAfter(&old, to, sizes[1]); err != nil {
			t.Fatal(err)
		}
		var all []sketch.Digest
		for range min(sizes[0], sizes[1]) * 4 / 3 {
			d := sketch.Digest{Pos: rng.Uint64(), ID: rng.Uint64()}
			if rng.IntN(2) == 0 {
				d.ID = d.Pos
			}
			all = append(all, d)
			old.Take(d, 0, from.Cost(1+rng.Uint64N(20)))
		}
		at := Carry{From: from, To: to, FromNow: from.Ticks(100 * time.Millisecond), Now: to.Ticks(100 * time.Millisecond)}
		next.TakeOver(&old, func() Carry { return at })
		for i, d := range all {
			units := min(Level(old.Lookup(d), at.FromNow)*120/from.unit, 12*120) // a unit is 120 times 1/120
			got := Level(next.Lookup(d), at.Now) * 120 / to.unit
			if got > units || got+1 < units {
				t.Fatalf("%v: bucket %d has %d/120 units, want %d", sizes, i, got, units)
			}
		}
		d := all[0]
		before := next.Lookup(d)
		old.Refund(d, at.FromNow, from.Cost(20))
		old.Take(d, at.FromNow, from.Cost(2))
		if got := next.Lookup(d); got != at.Now+to.Cost(2) {
			t.Errorf("%v: from level %d to %d after a refund and 2 units, want %d", sizes, Level(before, at.Now), Level(got, at.Now), to.Cost(2))
		}
		if old.Reset(d); next.Lookup(d) != 0 {
			t.Errorf("%v: a reset of the old table changes nothing", sizes)
		}
		if next.Unfollowed(); next.Evictions() != 0 {
			t.Errorf("%v: %d evictions", sizes, next.Evictions())
		}
	}
}

// What is given back by the old limit comes off what the new one had no room for first, unless it
// may have been charged since: then a client gets all of it back.
func TestRefundAcrossACut(t *testing.T) {
	t.Parallel()
	shape := func(n, burst uint64) Shape {
		s, err := NewShape(n, time.Second, burst)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	const change = 100 * time.Second
	for _, tt := range []struct {
		name    string
		to      Shape
		before  uint64        // units charged before the change
		since   uint64        // and after it
		later   time.Duration // when units are given back
		refunds []uint64
		want    []uint64 // units by the new limit after each
	}{
		{"dropped", shape(1, 12), 20, 0, 0, []uint64{5, 5, 4}, []uint64{12, 10, 6}},
		{"more than that", shape(1, 12), 20, 0, 0, []uint64{19}, []uint64{1}},
		{"nothing dropped", shape(1, 12), 10, 0, 0, []uint64{3, 20}, []uint64{7, 0}},
		{"leaked since", shape(1, 12), 20, 0, 2 * time.Second, []uint64{5, 5}, []uint64{10, 8}},
		{"leaks faster", shape(3, 12), 20, 0, 2 * time.Second, []uint64{5, 5}, []uint64{6, 4}},
		{"charged since", shape(1, 12), 20, 1, 2 * time.Second, []uint64{1, 5}, []uint64{10, 5}},
		{"drained", shape(1, 12), 20, 0, 11 * time.Second, []uint64{5, 9}, []uint64{1, 0}},
	} {
		from := shape(1, 20)
		var old, next Table
		if err := errors.Join(old.Init(from, 8), next.InitAfter(&old, tt.to, 8)); err != nil {
			t.Fatal(err)
		}
		d := sketch.Digest{Pos: 1 << 40, ID: 77}
		old.Take(d, from.Ticks(change), from.Cost(tt.before))
		next.TakeOver(&old, func() Carry {
			return Carry{From: from, To: tt.to, FromNow: from.Ticks(change), Now: tt.to.Ticks(change)}
		})
		now := change + tt.later
		for range tt.since {
			old.Take(d, from.Ticks(now), from.Cost(1))
		}
		for i, n := range tt.refunds {
			old.Refund(d, from.Ticks(now), from.Cost(n))
			if got := tt.to.Level(next.Lookup(d), tt.to.Ticks(now)); got != tt.to.Cost(tt.want[i]) {
				t.Errorf("%s: %v units after refund %d, want %d", tt.name, float64(got)/float64(tt.to.Unit()), i, tt.want[i])
			}
		}
	}
}
