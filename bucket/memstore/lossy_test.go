package memstore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/memstore"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/fleet"
)

// What gets lost on the way to a store, comes late or twice, denies nobody who conforms.
func TestLossy(t *testing.T) {
	t.Parallel()
	seeds := uint64(8)
	if testing.Short() {
		seeds = 2
	}
	on := func(ahead time.Duration) fleet.Fleet {
		return fleet.Fleet{Ahead: ahead, Decisions: testkit.Size[int64](1000, 130_000), Server: func(t testing.TB, _ time.Duration) func() bucket.Store {
			store := memstore.New(memstore.Config{Now: func() uint64 { return uint64(time.Now().Add(ahead).UnixMicro()) }})
			t.Cleanup(func() { _ = store.Close(context.Background()) })
			return func() bucket.Store { return store }
		}}
	}
	for _, rule := range fleet.LossyRules() {
		t.Run(rule.Name, func(t *testing.T) {
			t.Parallel()
			for seed := range seeds {
				ahead := []time.Duration{9 * time.Second, -9 * time.Second}[seed%2] // its clock is not that of nodes
				synctest.Test(t, func(t *testing.T) { on(ahead).Lossy(t, seed, rule) })
			}
		})
	}
}
