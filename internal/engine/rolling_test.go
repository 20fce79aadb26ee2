package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/bucket/memstore"
	"github.com/fastlimit/fastlimit/limit"
)

// asked is a rule of one node, and how often a client asks it.
type asked struct {
	rule  limit.RuleConfig
	every time.Duration
}

// rolling has nodes with these rules share a store for a minute. It returns what
// was admitted of the client, and denied, in units/s, once its burst was gone.
func rolling(t *testing.T, nodes ...asked) (admitted, denied float64) {
	t.Helper()
	const burstGone, measured = 20 * time.Second, 60 * time.Second
	var yes, no atomic.Int64
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Config{})
		defer store.Close(context.Background())
		start := time.Now()
		var wg sync.WaitGroup
		for _, n := range nodes {
			lim, err := New(Config{Rules: []limit.RuleConfig{n.rule}, Memory: 1 << 20, Store: store, Secret: [32]byte{1}})
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				r := lim.rules[0]
				key := r.BytesKey([]byte("x"))
				for time.Since(start) < burstGone+measured {
					lim.Advance()
					d := r.Take(t.Context(), key, 1)
					switch {
					case time.Since(start) < burstGone:
					case d.Allowed:
						yes.Add(1)
					default:
						no.Add(1)
					}
					time.Sleep(n.every)
				}
			})
		}
		wg.Wait()
	})
	return float64(yes.Load()) / measured.Seconds(), float64(no.Load()) / measured.Seconds()
}

// TestRollingChange: while a change of a rule rolls through a fleet, nodes of the
// old and of the new one share the bucket in Redis, not their suspicion. Who
// floods the ones and stays below the rate of the others gets the rates of both;
// who keeps to the smaller limit is never denied. Once all have the new rule that
// holds.
func TestRollingChange(t *testing.T) {
	t.Parallel()
	at := func(n, burst uint64) limit.RuleConfig { return rule("a", n, time.Second, burst) }
	const flood = time.Millisecond
	below50 := time.Second/50 + 100*time.Microsecond
	for _, tt := range []struct {
		name        string
		nodes       []asked
		least, most float64
	}{
		{"100 and 50, both flooded", []asked{{at(100, 100), flood}, {at(50, 50), flood}}, 100, 150.5},
		{"100 and 50, one flooded", []asked{{at(100, 100), flood}, {at(50, 50), below50}}, 145, 150.5},
		{"50 and 100, one flooded", []asked{{at(50, 50), flood}, {at(100, 100), time.Second / 99}}, 140, 150.5},
		{"another burst", []asked{{at(50, 100), flood}, {at(50, 50), below50}}, 95, 100.5},
		{"50 everywhere by now", []asked{{at(50, 50), flood}}, 49.5, 50.5},
	} {
		got, _ := rolling(t, tt.nodes...)
		t.Logf("%s: %.1f/s", tt.name, got)
		if got < tt.least || got > tt.most {
			t.Errorf("%s: %.1f/s admitted, want %v to %v", tt.name, got, tt.least, tt.most)
		}
	}
	if got, denied := rolling(t, asked{at(100, 100), time.Second / 25}, asked{at(50, 50), time.Second / 25}); denied > 0 || got < 49 {
		t.Errorf("a client of 50/s: %.1f/s admitted, %.2f/s denied", got, denied)
	}
}
