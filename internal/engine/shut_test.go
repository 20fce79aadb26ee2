package engine

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/bucket/memstore"
	"github.com/fastlimit/fastlimit/limit"
)

// A client that floods asks the store a few times for each unit that it is admitted, by
// whatever a rule counts, also where the node's time leads the store's because some
// operations take long to get there (P4).
func TestFloodsAskTheStoreSeldom(t *testing.T) {
	t.Parallel()
	for _, c := range []limit.RuleConfig{
		strictRule("a", 50, time.Second, 50), windowRule("a", 50, time.Second), slidingRule("a", 50, time.Second), logRule("a", 50, time.Second),
		logRule("a", 300, time.Minute),
	} {
		t.Run(c.Algorithm.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { floodStore(t, c) })
		})
	}
}

func floodStore(t *testing.T, c limit.RuleConfig) {
	t.Helper()
	rng := rand.New(rand.NewPCG(4, 4))
	start := time.Now()
	s := (*slowStore)(nil).sibling()
	s.Store = memstore.New(memstore.Config{Now: func() uint64 { return uint64(time.Now().UnixMicro()) }})
	defer s.Close(t.Context())
	var mu sync.Mutex
	s.delay = func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		if rng.IntN(10) == 0 {
			return 4 * time.Millisecond
		}
		return 100 * time.Microsecond
	}
	r := sharedLimiter(t, s, withStrict(c)).rules[0]
	admitted := 0
	for time.Since(start) < 3*c.Rate.Per+time.Second {
		if r.Take(t.Context(), r.BytesKey([]byte("x")), 1).Allowed {
			admitted++
		}
		time.Sleep(max(50*time.Microsecond, c.Rate.Per/20_000))
	}
	if asked := s.takes.Load(); asked > 3*int64(admitted)+100 || admitted < 100 {
		t.Errorf("%d operations for %d units", asked, admitted)
	}
}
