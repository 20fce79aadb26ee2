package fastlimit

import (
	"bytes"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// What a request has cost more than it was charged marks the filter: the next one of the same
// client is not its first.
func TestSettleMarksTheFilter(t *testing.T) {
	t.Parallel()
	r := mustNew(t, rule("a", 100, time.Second, 10)).rules[0]
	if r.filter == nil {
		t.Fatal("no filter")
	}
	key := r.BytesKey([]byte("x"))
	r.Settle(t.Context(), key, 0, 1, 0)
	if d := r.Take(t.Context(), key, 1); d.Stage == StageFilter {
		t.Errorf("first seen after it was charged: %+v", d)
	}
}

// Whoever is peeked at is new to the filter all the same.
func TestPeekMarksNobody(t *testing.T) {
	t.Parallel()
	r := mustNew(t, rule("a", 100, time.Second, 10)).rules[0]
	key := r.BytesKey([]byte("x"))
	for range 2 {
		if d := r.Peek(key, 1); d.Stage != StageFilter {
			t.Errorf("peeked at: %+v", d)
		}
	}
	if d := r.Take(t.Context(), key, 1); d.Stage != StageFilter {
		t.Errorf("not first seen after a peek: %+v", d)
	}
}

// A ban that begins in an old limiter is told to the new one, whose table is another, and one
// that it takes over lasts no longer than the new Max.
func TestBansOfTheOldLimiter(t *testing.T) {
	t.Parallel()
	old := mustNew(t, banRule("a"))
	was := old.rules[0]
	deny := func(client string) {
		for range 5 {
			was.Take(t.Context(), was.BytesKey([]byte(client)), 1)
		}
	}
	deny("before")
	c := banRule("a")
	c.Ban = BanPolicy{After: 3, For: 2 * time.Second, Max: 5 * time.Second, Within: time.Minute}
	next := mustWith(t, old, Config{Rules: []RuleConfig{c}})
	is := next.rules[0]
	deny("since")
	for _, client := range []string{"before", "since"} {
		if left, ok := is.Banned(is.BytesKey([]byte(client))); !ok || left != 5*time.Second {
			t.Errorf("banned %s: %v for %v, want 5s", client, ok, left)
		}
	}
	runtime.KeepAlive(next)
}

// A limit that is named while the store comes back may have been named before, and brings
// along what the node admitted meanwhile.
func TestNewNamedRateBringsFloors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlowStore(t)
		down := s.outage()
		cfg := withMaxRate(rule("a", 1, time.Hour, 5), perSec(1000))
		a, b := sharedLimiter(t, s, cfg).rules[0], sharedLimiter(t, s, cfg).rules[0]
		take := func(r *Rule, n, units uint64) Decision {
			r = r.AtRate(Rate{N: n, Per: time.Hour})
			return r.Take(t.Context(), r.BytesKey([]byte("x")), units)
		}
		down.Store(true)
		if d := take(a, 5, 4); !d.Allowed || !d.Degraded {
			t.Fatalf("while it is away: %+v", d)
		}
		down.Store(false)
		if d := take(a, 6, 1); !d.Allowed || d.Degraded {
			t.Fatalf("at another rate: %+v", d)
		}
		if d := take(b, 5, 1); d.Allowed { // 48 + 10 + 12 minutes
			t.Errorf("another node: %+v, want 58 of 60 minutes taken", d)
		}
	})
}

// busyWriter has a client ask with each write.
type busyWriter struct {
	bytes.Buffer

	ask func()
}

func (w *busyWriter) Write(b []byte) (int, error) {
	w.ask()
	return w.Buffer.Write(b)
}

// Whatever is charged while a limiter is saved: in the file a sketch has what the bucket has.
func TestSavedSketchHasWhatTheBucketHas(t *testing.T) {
	t.Parallel()
	l := mustNew(t, withTheta(rule("a", 1, time.Hour, 10_000), 0.001))
	r := l.rules[0]
	key := r.BytesKey([]byte("x"))
	for range 20 { // a suspect by then
		r.Take(t.Context(), key, 1)
	}
	file := &busyWriter{ask: func() { r.Take(t.Context(), key, 200) }}
	if err := l.Save(file); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(file, LoadOptions{Clock: new(ManualClock)})
	if err != nil {
		t.Fatal(err)
	}
	r = loaded.rules[0]
	now := loaded.Now()
	held := bucket.Level(r.buckets.Table.Lookup(key.digest()), r.buckets.Shape.Ticks(now))
	if counted := r.sketch.Level(key.digest(), r.buckets.SketchTicks(now)); held == 0 || counted < held {
		t.Errorf("the sketch has %d ticks of a bucket with %d", counted, held)
	}
}
