package pgstore

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/storetest/trial"
	"github.com/fastlimit/fastlimit/internal/testkit/faultproxy"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// Operations of 64 callers at once, of two nodes, over connections that break and to
// a server that is restarted meanwhile, are carried out one after another on each
// bucket, each at most once, between call and answer.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		var c Config
		server := started(t, &c)
		proxy := faultproxy.New(t, server.Addr, seed)
		c.URL = strings.Replace(c.URL, server.Addr, proxy.Addr(), 1)
		c.Workers, c.Timeout = 2, 10*time.Second // only what breaks is unknown: a slow machine is not
		clock := trial.NewTick()
		l := trial.Linear{Seed: seed, Clock: clock, Callers: 64, Each: 1, Keys: 10, Faulty: true, Disturb: func(phase int) {
			if phase%4 == 3 {
				server.Restart()
			}
		}}
		l.Settle = func() { // the connections end, and what served them
			before := server.Do("SELECT clock_timestamp()")
			redistest.Eventually(t, "the end of all connections", func() bool {
				proxy.Cut() // again: a connection that was being made is not among those cut before
				return server.Do("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND backend_start < '"+before+"' AND pid <> pg_backend_pid()") == "0"
			})
		}
		for range 2 {
			l.Nodes = append(l.Nodes, openClocked(t, c, clock.Now, time.Now))
		}
		for _, a := range trial.Algorithms {
			l.Shapes = append(l.Shapes, trial.MustShape(t, a, 10, time.Second, 6))
		}
		proxy.Set(t, faultproxy.Fault{ResetOneIn: 40, Slice: 200})
		l.Check(t)
	}
}

// Nodes whose batches overlap, in any order, neither lose an update nor lock each
// other out.
func TestNoLostUpdate(t *testing.T) {
	t.Parallel()
	const nodes, workers, batches, size, keys = 3, 4, 40, 20, 30
	var c Config
	server := started(t, &c)
	c.Workers = workers
	shape := mustShape(t, 1, 24*time.Hour, 40_000)
	var mu sync.Mutex
	granted := uint64(0)
	var wg sync.WaitGroup
	for node := range nodes {
		s := mustOpen(t, c)
		for worker := range workers {
			rng := rand.New(rand.NewPCG(uint64(node), uint64(worker)))
			wg.Go(func() {
				for range batches {
					var ops []*bucket.Op
					for range size {
						ops = append(ops, &bucket.Op{Kind: bucket.Take, Key: "k" + strconv.Itoa(rng.IntN(keys)), Shape: shape, Cost: shape.Unit(), Count: 1})
					}
					s.driver.Exec(t.Context(), ops, func(op *bucket.Op, r bucket.Reply, err error) {
						mu.Lock()
						defer mu.Unlock()
						granted += r.Granted
						if err != nil {
							t.Errorf("%s: %v", op.Key, err)
						}
					})
				}
			})
		}
	}
	wg.Wait()
	units := server.Do("SELECT sum((level + 86399999999) / 86400000000) FROM fastlimit.bucket WHERE key LIKE 'k%'::bytea")
	if want := nodes * workers * batches * size; granted != uint64(want) || units != strconv.Itoa(want) {
		t.Errorf("%d granted and %s charged of %d", granted, units, want)
	}
}
