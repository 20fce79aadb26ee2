package engine

import (
	"runtime"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// pair is two limiters of a rule each whose clocks show the same moment.
func pair(t *testing.T, was, is limit.RuleConfig) (from, to *Rule) {
	t.Helper()
	return mustNewSecret(t, was).rules[0], mustNewSecret(t, is).rules[0]
}

func mustNewSecret(t *testing.T, c limit.RuleConfig) *Limiter {
	t.Helper()
	clock := new(ManualClock)
	clock.SetStart(time.Unix(1_000_000, 0))
	l, err := New(Config{Rules: []limit.RuleConfig{c}, Secret: [32]byte{1}, Memory: limit.MinMemory, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	clock.Set(time.Hour)
	return l
}

// A merge dates what the other process knew a µs late: neither process had denied the unit
// that has leaked in the µs which two clocks may lack.
func TestMergedLevelsComeOutLower(t *testing.T) {
	t.Parallel()
	c := strictRule("a", 1, time.Second, 10)
	from, to := pair(t, c, c)
	from.Take(t.Context(), from.BytesKey([]byte("x")), 10)
	if err := to.limiter.Merge(from.limiter); err != nil {
		t.Fatal(err)
	}
	setTime(to.limiter, time.Hour+time.Second-time.Microsecond)
	if d := to.Take(t.Context(), to.BytesKey([]byte("x")), 1); !d.Allowed {
		t.Errorf("denied a µs before the second is over: %+v", d)
	}
}

// The clock of the old process was an hour ahead. Its windows have not begun here, and a client
// is not denied until they do. What is of the current window counts.
func TestMergeForgivesWindowsAhead(t *testing.T) {
	t.Parallel()
	for _, c := range []limit.RuleConfig{windowRule("a", 10, time.Minute), slidingRule("a", 10, time.Minute)} {
		for ahead, want := range map[time.Duration]bool{0: false, time.Minute: true, time.Hour: true} {
			from, to := pair(t, withStrict(c), withStrict(c))
			from.limiter.manual.SetStart(time.Unix(1_000_000, 0).Add(ahead))
			from.Take(t.Context(), from.BytesKey([]byte("x")), 10)
			if err := to.limiter.Merge(from.limiter); err != nil {
				t.Fatal(err)
			}
			if d := to.Take(t.Context(), to.BytesKey([]byte("x")), 10); d.Allowed != want {
				t.Errorf("%v, %v ahead: %+v", c.Algorithm, ahead, d)
			}
		}
	}
}

// After a merge every client of a log is checked exactly: the periods of the two sketches
// begin at other times.
func TestMergedLogsAreChecked(t *testing.T) {
	t.Parallel()
	from, to := pair(t, logRule("a", 10, time.Hour), logRule("a", 10, time.Hour))
	if err := to.limiter.Merge(from.limiter); err != nil {
		t.Fatal(err)
	}
	key := to.BytesKey([]byte("x"))
	for range 2 { // the filter may admit the first
		if d := to.Take(t.Context(), key, 1); d.Stage == limit.StageSketch {
			t.Errorf("the sketch admits: %+v", d)
		}
	}
}

// What an old limiter admits after two changes is charged to the sketch of the last one, in
// thousandths rounded up.
func TestChangesTellTheLast(t *testing.T) {
	t.Parallel()
	thousandths := func(burst uint64) limit.RuleConfig {
		c := rule("a", 1, time.Minute, burst)
		c.Thousandths = true
		return c
	}
	for name, rules := range map[string][]limit.RuleConfig{
		"chain":       {rule("a", 1, time.Minute, 20), rule("a", 1, time.Hour, 20), rule("a", 2, time.Hour, 20)},
		"thousandths": {thousandths(20), rule("a", 1, time.Hour, 20)},
	} {
		first := mustNew(t, rules[0])
		last := []*Limiter{first}
		for _, c := range rules[1:] {
			last = append(last, mustWith(t, last[len(last)-1], Config{Rules: []limit.RuleConfig{c}}))
		}
		old, now := first.rules[0], last[len(last)-1].rules[0]
		key := old.BytesKey([]byte("x"))
		old.Take(t.Context(), key, 1) // the filter knows it then
		before, scale := now.sketch.Level(key.digest(), now.buckets.SketchTicks(0)), uint64(old.scale)
		old.Take(t.Context(), key, 2*scale+scale/2) // in whole units 3, or 2
		want := (2*scale + scale/2 + scale - 1) / scale
		if got := now.sketch.Level(key.digest(), now.buckets.SketchTicks(0)) - before; got < now.buckets.Shape.Cost(want) {
			t.Errorf("%s: the last sketch was charged %d ticks, want %d units", name, got, want)
		}
		runtime.KeepAlive(last)
	}
}
