package redisstore

import (
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/storetest/trial"
	"github.com/fastlimit/fastlimit/internal/testkit/faultproxy"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// Concurrent operations, over connections that break, are carried out one after another
// on each bucket, each at most once, between call and answer: of few callers on one
// bucket of each algorithm, and of 64 callers of two nodes on buckets of all.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	var shapes []bucket.Shape
	for _, a := range trial.Algorithms {
		shapes = append(shapes, trial.MustShape(t, a, 6, time.Second, 6))
	}
	few := func(i int) trial.Linear {
		return trial.Linear{Callers: 6, Each: 4, Keys: 1, Shapes: shapes[i : i+1]}
	}
	many := trial.Linear{Callers: 64, Each: 1, Keys: 10, Shapes: shapes}
	for seed, l := range []trial.Linear{few(0), few(1), few(2), few(3), many, many} {
		server := redistest.Start(t)
		proxy := faultproxy.New(t, server.Addr, uint64(seed))
		c := patient(proxy.Addr())
		c.Workers, c.Timeout = 4, 10*time.Second // only what breaks is unknown: a slow machine is not
		l.Seed, l.Clock, l.Faulty = uint64(seed), trial.NewTick(), true
		own := server.Session()
		l.Settle = func() { own.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") } // what they have sent goes with them
		for range 2 {
			l.Nodes = append(l.Nodes, openClocked(t, c, timeless, l.Clock.Now, time.Now))
		}
		proxy.Set(t, faultproxy.Fault{ResetOneIn: 12, Slice: 50})
		l.Check(t)
	}
}
