package count

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/rls/descriptor"
)

func countersFor(t testing.TB, clients int) *Counters {
	t.Helper()
	c, err := New(clients)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func add(t testing.TB, c *Counters, now time.Duration, u descriptor.Unit, key string, n uint64) uint64 {
	t.Helper()
	h := []Hit{{Key: []byte(key), Unit: u, Hits: n}}
	if err := c.Add(now, h); err != nil {
		t.Fatal(err)
	}
	return h[0].Count
}

func TestAdd(t *testing.T) {
	t.Parallel()
	c := countersFor(t, 64)
	const day = 24 * time.Hour
	for i, step := range []struct {
		now  time.Duration
		unit descriptor.Unit
		key  string
		hits uint64
		want uint64
	}{
		{day, descriptor.Second, "a", 2, 2},
		{day, descriptor.Second, "a", 3, 5},
		{day, descriptor.Minute, "a", 1, 1}, // another unit
		{day, descriptor.Second, "b", 1, 1}, // another key
		{day, descriptor.Second, "a", 0, 5},
		{day + time.Second - 1, descriptor.Second, "a", 1, 6},
		{day + time.Second, descriptor.Second, "a", 0, 0},
		{day + time.Second, descriptor.Second, "a", 1, 1},
		{day + time.Second - 1, descriptor.Second, "a", 1, 2}, // a clock that was set back counts in the later window
		{day + time.Minute - 1, descriptor.Minute, "a", 1, 2},
		{day + time.Minute, descriptor.Minute, "a", math.MaxUint32, math.MaxUint32},
		{day + time.Minute, descriptor.Minute, "a", 1, 1 << 32},
		{day + time.Minute, descriptor.Minute, "a", 0, math.MaxUint32},
		{day + 2*time.Minute, descriptor.Minute, "a", math.MaxUint64, math.MaxUint64},
		{day + 2*time.Minute, descriptor.Minute, "a", 5, 1 << 32},
	} {
		if got := add(t, c, step.now, step.unit, step.key, step.hits); got != step.want {
			t.Errorf("step %d: %d, want %d", i, got, step.want)
		}
	}
	for _, bad := range []descriptor.Unit{0, 8, 255} {
		if c.Add(0, []Hit{{Key: []byte("a"), Unit: bad}}) == nil {
			t.Errorf("unit %d accepted", bad)
		}
	}
	if _, err := New(0); err == nil {
		t.Error("a table without room accepted")
	}
}

func TestAsk(t *testing.T) {
	t.Parallel()
	c := countersFor(t, 64)
	add(t, c, 0, descriptor.Hour, "a", 3)
	hits := []Hit{
		{Key: []byte("a"), Unit: descriptor.Hour, Hits: 2},
		{Key: []byte("a"), Unit: descriptor.Hour, Hits: 1},
		{Key: []byte("a"), Unit: descriptor.Hour, Hits: math.MaxUint64},
		{Key: []byte("b"), Unit: descriptor.Year, Hits: 1},
	}
	if err := c.Ask(0, hits); err != nil {
		t.Fatal(err)
	}
	for i, want := range []uint64{5, 4, math.MaxUint64, 1} {
		if hits[i].Count != want {
			t.Errorf("%d: %d, want %d", i, hits[i].Count, want)
		}
	}
	if got := add(t, c, 0, descriptor.Hour, "a", 0); got != 3 {
		t.Errorf("asking has counted: %d", got)
	}
}

// TestConcurrent: each hit gets a count of its own, and none is lost.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	c := countersFor(t, 64)
	const each, callers = 500, 4
	var seen sync.Map
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for range each {
				if _, twice := seen.LoadOrStore(add(t, c, 0, descriptor.Day, "a", 1), true); twice {
					t.Error("a count was given twice")
				}
			}
		})
	}
	group.Wait()
	if got := add(t, c, 0, descriptor.Day, "a", 0); got != each*callers {
		t.Errorf("%d counted, want %d", got, each*callers)
	}
}

// TestFull: too many clients make the table forget some, which is counted; it stays as
// large as it is.
func TestFull(t *testing.T) {
	t.Parallel()
	c := countersFor(t, 1024)
	var key [8]byte
	lost := 0
	for i := range uint64(4096) {
		binary.LittleEndian.PutUint64(key[:], i)
		add(t, c, 0, descriptor.Day, string(key[:]), 1)
	}
	for i := range uint64(4096) {
		binary.LittleEndian.PutUint64(key[:], i)
		if add(t, c, 0, descriptor.Day, string(key[:]), 0) == 0 {
			lost++
		}
	}
	if lost < 2048 || uint64(lost) != c.Evictions() {
		t.Errorf("%d lost, %d evictions", lost, c.Evictions())
	}
	c.Sweep(48 * time.Hour)
	evictions := c.Evictions()
	for i := range 512 { // the windows of all others are over
		add(t, c, 48*time.Hour, descriptor.Day, fmt.Sprint(i), 1)
	}
	if c.Evictions() != evictions {
		t.Error("windows that are over take room")
	}
}

func BenchmarkAdd(b *testing.B) {
	c := countersFor(b, 1<<16)
	hits := []Hit{{Key: []byte("domain, key and value"), Unit: descriptor.Minute, Hits: 1}}
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Add(time.Hour, hits); err != nil {
			b.Fatal(err)
		}
	}
}
