package engine

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/bucket/memstore"
	"github.com/fastlimit/fastlimit/limit"
)

// A client that waits for what a denial says is admitted, if nothing else arrives: with
// a store too, whose clock the node's time leads by up to the time that an operation
// takes to get there, and by more where the store's clock was set back. (In a log no
// time has passed then, of which a node hears later.) And it does not wait for much
// longer than it must.
func TestWaitingForTheStoresWindowIsEnough(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []limit.Algorithm{limit.FixedWindow, limit.SlidingWindow, limit.SlidingLog} {
		t.Run(algorithm.String(), func(t *testing.T) {
			t.Parallel()
			waitingIsEnough(t, algorithm)
		})
	}
}

func waitingIsEnough(t *testing.T, algorithm limit.Algorithm) {
	t.Helper()
	const j = 50 * time.Millisecond
	stages, past := map[limit.Stage]int{}, 0
	for seed := range uint64(12) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 15))
			start, offset, drift := time.Now(), time.Duration(rng.Int64N(int64(time.Minute))), rng.Float64()*18e-4-9e-4
			clock := func() time.Duration {
				since := time.Since(start)
				return time.Duration(start.UnixNano()) + since + offset + time.Duration(drift*float64(since))
			}
			s := (*slowStore)(nil).sibling()
			s.Store = memstore.New(memstore.Config{Now: func() uint64 { return uint64(clock() / time.Microsecond) }})
			t.Cleanup(func() { _ = s.Close(t.Context()) })
			longest := j - j/8
			s.delay = func() time.Duration { return time.Duration(rng.Int64N(int64(longest))) }
			per := time.Duration(1+rng.IntN(1<<rng.UintN(10))) * time.Second
			c := withAlgorithm(withStrict(windowRule("a", 3, per)), algorithm)
			c.OnFailure = limit.FailClosed
			lim, err := New(Config{Rules: []limit.RuleConfig{c}, Store: s, StoreTimeout: j, Memory: 4 << 20})
			if err != nil {
				t.Fatal(err)
			}
			r := lim.rules[0]
			key, other := r.BytesKey([]byte("x")), r.BytesKey([]byte("y"))
			for range 300 {
				if most := per; rng.IntN(20) == 0 && seed%2 > 0 && algorithm != limit.SlidingLog {
					offset -= time.Duration(rng.Int64N(int64(most)))
					for range 40 { // until the node has noticed
						time.Sleep(100 * time.Millisecond)
						r.Reset(other)
						r.Take(t.Context(), other, 1)
					}
				}
				if rng.IntN(2) == 0 { // to about the end of the window
					time.Sleep(max(0, per-clock()%per+time.Duration(rng.Int64N(int64(6*j)))-3*j))
				} else {
					time.Sleep(time.Duration(rng.Int64N(int64(per))))
				}
				d := r.Take(t.Context(), key, 1)
				for d.Allowed {
					d = r.Take(t.Context(), key, 1)
				}
				if rng.IntN(2) == 0 { // long after what was heard of the store
					time.Sleep(time.Duration(rng.Int64N(int64(per - clock()%per))))
					if d = r.Take(t.Context(), key, 1); d.Allowed {
						continue
					}
				}
				window, began := clock()/per, r.buckets.Clock.WallTime(r.buckets.Clock.Now())/per
				if stages[d.Stage]++; began > window {
					past++
				}
				time.Sleep(d.RetryAfter)
				longest = 1
				again := r.Take(t.Context(), key, 1)
				longest = j - j/8
				if !again.Allowed {
					t.Fatalf("windows of %v: denied at stage %v, and %v later at stage %v, to retry after %v", per, d.Stage, d.RetryAfter, again.Stage, again.RetryAfter)
				}
				if late := clock() - (window+1)*per; late > 3*j+per/256 && seed%2 == 0 && algorithm == limit.FixedWindow {
					t.Fatalf("windows of %v: to retry %v after the next one has begun", per, late)
				}
			}
		})
	}
	if stages[limit.StageTable] == 0 || stages[limit.StageExact] == 0 || past == 0 && algorithm != limit.SlidingLog {
		t.Errorf("denials by stage %v, %d by windows that were over by the node's time: nothing was tested", stages, past)
	}
}
