package pgstore_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket/pgstore"
	"github.com/fastlimit/fastlimit/internal/testkit/pgtest"
)

// Two nodes on one PostgreSQL, with every algorithm: a client that keeps its limit is
// never denied (P1), and one that floods both nodes gets what one bucket gives (P2).
func TestSandwichOfNodes(t *testing.T) {
	t.Parallel()
	const limit, runFor, wait = 40, 2500 * time.Millisecond, time.Second
	server := pgtest.Start(t)
	c := pgstore.Config{URL: server.URL("postgres", "postgres"), Timeout: wait, Logger: slog.New(slog.DiscardHandler)}
	if err := pgstore.Init(t.Context(), c, pgstore.SchemaOptions{}); err != nil {
		t.Fatal(err)
	}
	algorithms := []fastlimit.Algorithm{fastlimit.LeakyBucket, fastlimit.FixedWindow, fastlimit.SlidingWindow, fastlimit.SlidingLog}
	var nodes []*fastlimit.Limiter
	for range 2 {
		store, err := pgstore.Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close(context.Background()) })
		lc := fastlimit.Config{Store: store, StoreTimeout: wait, Memory: 8 << 20}
		for _, a := range algorithms {
			lc.Rules = append(lc.Rules, fastlimit.RuleConfig{
				Name: a.String(), Rate: fastlimit.Rate{N: limit, Per: time.Second}, Algorithm: a, Strict: a == fastlimit.LeakyBucket, OnFailure: fastlimit.FailClosed,
			})
		}
		lim, err := fastlimit.New(lc)
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, lim)
	}
	var all sync.WaitGroup // at the same time: mostly they wait
	for i, a := range algorithms {
		all.Go(func() {
			var mu sync.Mutex
			var admitted []time.Time // of the flood, by the exact tier
			denied, fallbacks := 0, 0
			var wg sync.WaitGroup
			begin := time.Now()
			enough := func() bool { // a slow machine needs longer
				mu.Lock()
				defer mu.Unlock()
				return time.Since(begin) >= runFor && denied >= 100
			}
			for caller := range 6 {
				wg.Go(func() {
					r := nodes[caller%2].Rules()[i]
					for !enough() {
						d := r.Take(context.Background(), r.BytesKey([]byte("flood")), 1)
						mu.Lock()
						switch {
						case d.Stage == fastlimit.StageFallback:
							fallbacks++
						case !d.Allowed:
							denied++
						case d.Stage == fastlimit.StageExact:
							admitted = append(admitted, time.Now())
						}
						mu.Unlock()
						time.Sleep(time.Millisecond)
					}
				})
			}
			wg.Go(func() { // half of the rate, from both nodes
				for n := 0; !enough(); n++ {
					r := nodes[n%2].Rules()[i]
					if d := r.Take(context.Background(), r.BytesKey([]byte("good")), 1); !d.Allowed && d.Stage != fastlimit.StageFallback {
						t.Errorf("P1: %v: denied at stage %v", a, d.Stage)
					}
					time.Sleep(time.Second / (limit / 2))
				}
			})
			wg.Wait()
			elapsed := time.Since(begin)
			// A window admits its limit, and a run touches one more than it has whole ones;
			// a bucket has the burst and the slack of the wait before.
			most := limit * (int(elapsed/time.Second) + 2)
			if a == fastlimit.LeakyBucket {
				most = limit + int(limit*(wait+elapsed).Seconds()) + 1
			}
			if len(admitted) > most || len(admitted) < limit {
				t.Errorf("P2: %v: %d admitted in %v, want at most %d; %d denied", a, len(admitted), elapsed, most, denied)
			}
			t.Logf("%v: %d admitted in %v (at most %d), %d denied, %d fallbacks", a, len(admitted), elapsed.Round(time.Millisecond), most, denied, fallbacks)
		})
	}
	all.Wait()
}
