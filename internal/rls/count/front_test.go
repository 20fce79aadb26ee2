package count

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/rls/descriptor"
	"github.com/fastlimit/fastlimit/internal/testkit"
)

func frontFor(t testing.TB, behind Counter, clients int, at uint64) *Front {
	t.Helper()
	f, err := NewFront(behind, clients, at)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFront(t *testing.T) {
	t.Parallel()
	behind := countersFor(t, 64)
	f := frontFor(t, behind, 64, 10)
	at := func(now time.Duration, key string, hits, limit uint64) uint64 {
		h := []Hit{{Key: []byte(key), Unit: descriptor.Minute, Hits: hits, Limit: limit}}
		if err := f.Add(now, h); err != nil {
			t.Fatal(err)
		}
		return h[0].Count
	}
	for i, step := range []struct {
		now                     time.Duration
		key                     string
		hits, limit, want, kept uint64 // counted behind
	}{
		{day, "a", 4, 20, 10, 0},
		{day, "a", 6, 20, 10, 0},
		{day, "a", 0, 20, 10, 0},
		{day, "a", 3, 20, 3, 3},
		{day, "a", 18, 20, 21, 21},
		{day + time.Minute - 1, "a", 0, 20, 21, 21},
		{day + time.Minute, "a", 1, 20, 10, 0},
		{day, "a", 1, 20, 22, 22}, // by a clock that was set back
		{day, "b", 1, 19, 1, 1},   // a low limit
		{day, "c", math.MaxUint64, 20, math.MaxUint64, 1<<32 - 1},
		{day, "c", 1, 20, 1 << 32, 1<<32 - 1},
		{day + time.Minute, "c", 1, 20, 10, 0},
	} {
		if got := at(step.now, step.key, step.hits, step.limit); got != step.want {
			t.Errorf("step %d: %d, want %d", i, got, step.want)
		}
		if got := add(t, behind, step.now, descriptor.Minute, step.key, 0); got != step.kept {
			t.Errorf("step %d: %d counted behind, want %d", i, got, step.kept)
		}
	}
}

// TestFrontAsks as if each hit were added.
func TestFrontAsks(t *testing.T) {
	t.Parallel()
	f := frontFor(t, countersFor(t, 64), 64, 10)
	for _, step := range []struct {
		key        string
		hits, want uint64
	}{{"a", 10, 10}, {"a", 11, 11}, {"a", 5, 10}, {"b", 10, 10}, {"b", math.MaxUint64, math.MaxUint64}} {
		h := []Hit{{Key: []byte(step.key), Unit: descriptor.Minute, Hits: step.hits, Limit: 20}, {Key: []byte("z"), Unit: descriptor.Hour, Hits: 3, Limit: 3}}
		if err := f.Ask(day, h); err != nil || h[0].Count != step.want || h[1].Count != 3 {
			t.Errorf("%+v: %d and %d, %v", step, h[0].Count, h[1].Count, err)
		}
	}
}

// recorder notes the names of hits that are counted behind.
type recorder struct {
	*Counters

	names map[string]bool
}

func (r *recorder) Add(now time.Duration, hits []Hit) error {
	for _, h := range hits {
		r.names[string(h.Name)] = true
	}
	return r.Counters.Add(now, hits)
}

// TestFrontAgainstOracle: few cells and many keys. Of each counter at most so many hits are
// admitted in front, and all others are counted behind, in order.
func TestFrontAgainstOracle(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for range testkit.Size(20, 500) {
		at := 1 + r.Uint64N(20)
		behind := &recorder{countersFor(t, 1<<12), map[string]bool{}}
		f := frontFor(t, behind, 16, at)
		inFront, counted := map[string]uint64{}, map[string]uint64{}
		now := day
		for range 2000 {
			if r.IntN(300) == 0 {
				now += time.Second
			}
			hits := make([]Hit, 1+r.IntN(3))
			for i := range hits {
				hits[i] = Hit{
					Key: fmt.Append(nil, r.IntN(40)), Name: fmt.Append(nil, i), Unit: descriptor.Second,
					Hits: r.Uint64N(3), Limit: 2*at - 1 + r.Uint64N(9),
				}
			}
			clear(behind.names)
			if err := f.Add(now, hits); err != nil {
				t.Fatal(err)
			}
			for i, h := range hits {
				where := fmt.Sprint(string(h.Key), " ", now)
				want := at
				if behind.names[fmt.Sprint(i)] {
					counted[where] += h.Hits
					want = counted[where]
				} else if inFront[where] += h.Hits; inFront[where] > at || h.Limit < 2*at {
					t.Fatalf("%d in front, want at most %d; the limit is %d", inFront[where], at, h.Limit)
				}
				if h.Count != want {
					t.Fatalf("%s: count %d, want %d", where, h.Count, want)
				}
			}
		}
		if len(inFront) == 0 || len(counted) == 0 {
			t.Fatalf("%d counters in front, %d behind", len(inFront), len(counted))
		}
	}
}

// TestFrontAtOnce: also of hits that come at the same moment no more are admitted in front.
func TestFrontAtOnce(t *testing.T) {
	t.Parallel()
	const callers, at = 8, 3
	for i := range testkit.Size(3000, 50_000) {
		behind := countersFor(t, 64)
		f := frontFor(t, behind, 4, at)
		key := []byte(fmt.Sprint(i))
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				if err := f.Add(day, []Hit{{Key: key, Unit: descriptor.Day, Hits: 1, Limit: 100}}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if got := add(t, behind, day, descriptor.Day, string(key), 0); got < callers-at {
			t.Fatalf("%d of %d counted behind, want %d", got, callers, callers-at)
		}
	}
}

// BenchmarkFrontAdd beside [BenchmarkAdd].
func BenchmarkFrontAdd(b *testing.B) {
	f := frontFor(b, countersFor(b, 1<<10), 1<<10, 1000)
	hits := []Hit{{Key: []byte("domain, key and value"), Unit: descriptor.Second, Hits: 1, Limit: 1 << 20}}
	now := day
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%1000 == 0 {
			now += time.Second
		}
		if err := f.Add(now, hits); err != nil {
			b.Fatal(err)
		}
	}
}
