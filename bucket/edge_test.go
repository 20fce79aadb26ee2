package bucket

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// A full bucket has room for a unit in the tick in which one has leaked, and none before.
func TestTakeFitsToTheTick(t *testing.T) {
	t.Parallel()
	shape, err := NewShape(10, time.Second, 3)
	if err != nil {
		t.Fatal(err)
	}
	table := tableOf(t, shape)
	d := sketch.Digest{Pos: 1 << 40, ID: 5}
	const now = 1 << 40
	table.Take(d, now, shape.limit)
	early := now + shape.unit - shape.Grace() - 1
	if _, ok := table.Take(d, early, shape.unit); ok {
		t.Error("a unit fits a tick before it has leaked")
	}
	if _, ok := table.Take(d, early+1, shape.unit); !ok {
		t.Error("a unit does not fit when it has leaked")
	}
}

// A unit of a log counts until its period is over, to the tick.
func TestLogUnitEndsToTheTick(t *testing.T) {
	t.Parallel()
	shape := mustLog(t, 2, time.Second)
	table := tableOf(t, shape)
	d := sketch.Digest{Pos: 1 << 40, ID: 5}
	const now = 1 << 40
	table.Take(d, now, 1)
	table.Take(d, now+10, 1)
	for _, end := range []uint64{now + shape.period, now + 10 + shape.period} {
		if free, _, _ := table.Log(d, end-1, 1); free != 0 {
			t.Errorf("%d units fit a tick before one expires", free)
		}
		if _, ok := table.Take(d, end-1, 1); ok {
			t.Error("a unit fits a tick before one expires")
		}
		if _, ok := table.Take(d, end, 1); !ok {
			t.Error("no unit fits when one has expired")
		}
	}
	other := sketch.Digest{Pos: 2 << 40, ID: 6}
	table.Take(other, now, 1) // of a log that is not full its word says nothing
	if _, ok := table.Take(other, now+shape.period-1, 2); ok {
		t.Error("two units fit beside one a tick before it expires")
	}
	if _, ok := table.Take(other, now+shape.period, 2); !ok {
		t.Error("two units do not fit when the only one has expired")
	}
}

// What is given back in a table gives no less back in the one that has taken it over: it is
// rounded up there, as its charge was rounded down.
func TestRefundIsFollowedRoundedUp(t *testing.T) {
	t.Parallel()
	from, err := NewShape(3, time.Second, 20)
	if err != nil {
		t.Fatal(err)
	}
	to, err := NewShape(10, time.Second, 20)
	if err != nil {
		t.Fatal(err)
	}
	var old, next Table
	if err := old.Init(from, 8); err != nil {
		t.Fatal(err)
	}
	if err := next.InitAfter(&old, to, 8); err != nil {
		t.Fatal(err)
	}
	c := Carry{From: from, To: to, FromNow: 3 << 30, Now: 1 << 30}
	next.TakeOver(&old, func() Carry { return c })
	d := sketch.Digest{Pos: 1 << 40, ID: 5}
	next.Take(d, c.Now, to.Cost(5))
	old.Take(d, c.FromNow, from.Cost(3))
	const back = 1001 // ticks, which are no whole ticks of to
	before := Level(next.Lookup(d), c.Now)
	old.Refund(d, c.FromNow, back)
	exactly := back * to.unit
	if got := (before - Level(next.Lookup(d), c.Now)) * from.unit; got < exactly || got >= exactly+from.unit {
		t.Errorf("%d ticks given back: %d/%d ticks in the new table, want %d/%d rounded up", back, got, from.unit, exactly, from.unit)
	}
}

// Of two logs that count the same client each of the latest times is the later one of both.
func TestMergeJoinsLogs(t *testing.T) {
	t.Parallel()
	const most, per, now = 5, 1000, 1 << 40
	shape := mustLog(t, most, per*time.Second)
	d := sketch.Digest{Pos: 1 << 40, ID: 5}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var want [most]uint64 // s, the latest first
		table, other := tableOf(t, shape), tableOf(t, shape)
		clock := [2]uint64{now, now - 7e9 + rng.Uint64N(3)*7e9} // the other's is behind, the same, or ahead
		for i, log := range []*Table{table, other} {
			at := uint64(0)
			for n := rng.IntN(most + 1); n > 0; n-- {
				at += rng.Uint64N(3)
				log.Take(d, clock[i]+at*1e6, 1)
				want[n-1] = max(want[n-1], at+1)
			}
		}
		table.Merge(other, Carry{From: shape, To: shape, FromNow: clock[1] + 20e6, Now: now + 20e6})
		for at := uint64(20); at < per+20; at++ {
			free := uint64(0)
			for _, t := range want {
				if t == 0 || t-1+per <= at {
					free++
				}
			}
			if got, _, _ := table.Log(d, now+at*1e6, 1); got != free {
				t.Fatalf("log joined to %v: %d free %d s later, want %d", want, got, at, free)
			}
		}
	}
}

// tableOf is a small table.
func tableOf(t *testing.T, shape Shape) *Table {
	t.Helper()
	table, err := NewTable(shape, 8)
	if err != nil {
		t.Fatal(err)
	}
	return table
}
