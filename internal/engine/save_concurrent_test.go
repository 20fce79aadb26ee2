package engine

import (
	"bytes"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/limit"
)

// TestSaveWhileRequestsGoOn: what is saved meanwhile can be loaded, and has what was charged
// before: a client that was over its limit is over it, and one that never came is not there.
func TestSaveWhileRequestsGoOn(t *testing.T) {
	t.Parallel()
	l, err := New(Config{Memory: limit.MinMemory, Rules: []limit.RuleConfig{
		withBan(rule("b", 1, time.Hour, 20), limit.BanPolicy{After: 100, For: time.Hour}), slidingRule("s", 20, time.Hour), logRule("l", 5, time.Hour), withTheta(rule("x", 1, time.Hour, 5), 0),
	}})
	if err != nil {
		t.Fatal(err)
	}
	attacker, nobody := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for _, r := range l.rules {
		for range 50 {
			r.Allow(r.AddrKey(attacker))
		}
	}
	var wg sync.WaitGroup
	var stop atomic.Bool
	for g := range 4 {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				for _, r := range l.rules {
					key := r.AddrKey(netip.AddrFrom4([4]byte{10, byte(g), byte(i >> 8), byte(i)}))
					r.Allow(key)
					r.Take(t.Context(), key, 3)
					if i%7 == 0 {
						r.Reset(key)
					}
				}
				if i%100 == 0 {
					l.Advance()
				}
			}
		})
	}
	for range 20 {
		var file bytes.Buffer
		if err := l.Save(&file); err != nil {
			t.Fatal(err)
		}
		loaded, err := Load(&file, LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range loaded.rules {
			if r.Peek(r.AddrKey(attacker), 1).Allowed && r.buckets.Table.Evictions() == 0 && l.byName[r.config.Name].buckets.Table.Evictions() == 0 {
				t.Errorf("rule %s: the attacker is forgotten", r.config.Name)
			}
			if d := r.Peek(r.AddrKey(nobody), r.config.Burst); !d.Allowed {
				t.Errorf("rule %s: somebody who never came: %+v", r.config.Name, d)
			}
		}
	}
	stop.Store(true)
	wg.Wait()
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
