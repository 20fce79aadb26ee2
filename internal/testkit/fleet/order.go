package fleet

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/limit"
)

// Order has requests of one client wait at two nodes for one bucket: each node lets them
// in in the order in which they came, all of them, and both together no faster than the
// bucket leaks.
func (f Fleet) Order(t *testing.T) {
	t.Helper()
	const nodes, each, perSecond, timeout = 2, 8, 20, 50 * time.Millisecond
	var all sync.WaitGroup
	var mu sync.Mutex
	var in [nodes][]int // guarded by mu
	degraded := false   // guarded by mu
	limiters := f.nodes(t, nodes, timeout, fastlimit.Config{Rules: []fastlimit.RuleConfig{{
		Name: "a", Rate: fastlimit.Rate{N: perSecond, Per: time.Second}, Burst: 1, Strict: true, MaxWait: limit.MaxMaxWait,
	}}})
	start := time.Now()
	for node, lim := range limiters {
		r := lim.Rules()[0]
		for i := range each {
			before := r.Stats().Waits
			all.Go(func() {
				d := r.Wait(t.Context(), r.BytesKey([]byte("client")), 1)
				mu.Lock()
				defer mu.Unlock()
				if degraded = degraded || d.Degraded; d.Allowed {
					in[node] = append(in[node], i)
				} else {
					t.Errorf("node %d: %d was denied: %+v", node, i, d)
				}
			})
			for { // until it has its place, or is in
				now := r.Stats().Waits
				mu.Lock()
				done := len(in[node])
				mu.Unlock()
				if now.Waiting+int64(done) > int64(i) || now.Waiting > before.Waiting {
					break
				}
				time.Sleep(100 * time.Microsecond)
			}
		}
	}
	all.Wait()
	for node := range nodes {
		if len(in[node]) != each || !slices.IsSorted(in[node]) {
			t.Errorf("node %d let in %v", node, in[node])
		}
	}
	// Where the store was too slow each node has kept the limit by itself.
	least := time.Duration(nodes*each-1)*time.Second/perSecond - timeout
	if degraded {
		least = time.Duration(each-1)*time.Second/perSecond - timeout
	}
	if took := time.Since(start); took < least {
		t.Errorf("all were in after %v, which takes %v", took, least)
	}
}
