package replay

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

func drainOrder(o *order, in []record) (out []record) {
	for _, r := range in {
		o.push(r)
		out = append(out, rest(o)...)
	}
	o.end()
	return append(out, rest(o)...)
}

// rest is what can be released.
func rest(o *order) (out []record) {
	for r, ok := o.pop(); ok; r, ok = o.pop() {
		out = append(out, r)
	}
	return out
}

// shuffled returns n records, one a second on average, each up to spread
// seconds behind its place.
func shuffled(n int, spread int64, seed uint64) []record {
	rnd := rand.New(rand.NewPCG(seed, 1))
	recs := make([]record, n)
	for i := range recs {
		recs[i] = record{at: (int64(i/2*2) - rnd.Int64N(spread+1)) * second, seq: int64(i)}
	}
	return recs
}

func TestOrderOfFileIsStableSort(t *testing.T) {
	t.Parallel()
	in := shuffled(5000, 4000, 1)
	want := slices.Clone(in)
	slices.SortStableFunc(want, func(a, b record) int { return int(a.at - b.at) })
	o := &order{budget: 1 << 30}
	if got := drainOrder(o, in); !slices.Equal(got, want) {
		t.Error("a file that fits is not sorted as a whole")
	}
	if o.late != 0 {
		t.Errorf("%d late", o.late)
	}
}

func TestOrderOfStream(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		spread int64
		late   bool
	}{{0, false}, {60, false}, {windowSeconds - 1, false}, {10 * windowSeconds, true}} {
		o := &order{budget: 1 << 30, windowed: true}
		in := shuffled(20000, tt.spread, 2)
		got := drainOrder(o, slices.Clone(in))
		if len(got) != len(in) {
			t.Fatalf("spread %d: %d records came out of %d", tt.spread, len(got), len(in))
		}
		if !slices.IsSortedFunc(got, compareRecords) {
			t.Errorf("spread %d: out of order", tt.spread)
		}
		if (o.late > 0) != tt.late {
			t.Errorf("spread %d: %d late", tt.spread, o.late)
		}
		if tt.late {
			continue
		}
		slices.SortStableFunc(in, func(a, b record) int { return int(a.at - b.at) })
		if !slices.Equal(got, in) {
			t.Errorf("spread %d: times were changed", tt.spread)
		}
	}
}

func TestOrderWindow(t *testing.T) {
	t.Parallel()
	o := &order{budget: 1 << 30, windowed: true}
	type step struct {
		at       int64
		released []int64
	}
	for i, s := range []step{
		{100, nil},
		{100 + windowSeconds - 1, nil},
		{100 + windowSeconds, []int64{100}},
		{90, []int64{100}}, // late: judged at the newest time released
		{100 + windowSeconds + 60, nil},
		{1000, []int64{219, 220, 280}},
		{281, []int64{281}}, // behind the window but not behind what was released
		{10, []int64{281}},
	} {
		o.push(record{at: s.at * second, seq: int64(i)})
		var got []int64
		for r, ok := o.pop(); ok; r, ok = o.pop() {
			got = append(got, r.at/second)
		}
		if !slices.Equal(got, s.released) {
			t.Errorf("step %d: released %v, want %v", i, got, s.released)
		}
	}
	if o.late != 2 {
		t.Errorf("%d late, want 2", o.late)
	}
}

// A file that is too large is sorted within the window from then on, and never
// holds more than the budget.
func TestOrderBudget(t *testing.T) {
	t.Parallel()
	const budget = 1000 * recordBytes
	o := &order{budget: budget}
	in := shuffled(20000, 60, 3)
	var got []record
	for _, r := range in {
		o.push(r)
		got = append(got, rest(o)...)
		if o.used > budget || int64(o.len())*recordBytes > budget {
			t.Fatalf("holds %d bytes", o.used)
		}
	}
	o.end()
	got = append(got, rest(o)...)
	slices.SortStableFunc(in, func(a, b record) int { return int(a.at - b.at) })
	if !slices.Equal(got, in) || o.late != 0 {
		t.Errorf("not in order, %d late", o.late)
	}
}

// What is held in several pieces comes out as one order, with a window that was
// put in place halfway too.
func TestOrderOfManyPieces(t *testing.T) {
	t.Parallel()
	const n = 3*runLength + 100
	for name, budget := range map[string]int64{"all is held": 1 << 30, "half is held": n / 2 * recordBytes} {
		in := shuffled(n, 60, 5)
		o := &order{budget: budget}
		got := drainOrder(o, slices.Clone(in))
		slices.SortStableFunc(in, func(a, b record) int { return cmp.Compare(a.at, b.at) })
		if !slices.Equal(got, in) || o.late != 0 || o.used != 0 || o.len() != 0 {
			t.Errorf("%s: not in order, or %d late, %d bytes and %d records left", name, o.late, o.used, o.len())
		}
	}
}
