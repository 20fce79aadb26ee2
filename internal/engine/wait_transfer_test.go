package engine

import (
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// TestWaitersDuringATransfer: requests that wake up while many buckets are entered in the
// successor's table ask it only afterwards. The race detector sees those that do not.
func TestWaitersDuringATransfer(t *testing.T) {
	t.Parallel()
	const clients, changes = 5000, 6
	rule := waitRule("a", 1000, 10_000, time.Minute)
	lim := waiting(t, Config{Memory: 4 << 20, Rules: []limit.RuleConfig{rule}})
	if newest(lim.rules[0].next.node) != nil {
		t.Error("a successor that nobody made")
	}
	for i := range uint32(clients) { // these take a second to drain, and more
		lim.rules[0].Take(t.Context(), lim.rules[0].BytesKey(binary.LittleEndian.AppendUint32(nil, i)), 1000+uint64(i))
	}
	var mu sync.Mutex // guards last
	last := lim
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for i := range byte(8) {
		callers.Go(func() {
			for n := uint64(10_000); ; n = 3 {
				select {
				case <-stop:
					return
				default:
				}
				mu.Lock()
				r := last.rules[0]
				mu.Unlock()
				r.Wait(t.Context(), r.BytesKey([]byte{i}), n)
			}
		})
	}
	for range changes {
		rule.Rate.N++ // which takes another table
		next, err := last.With(Config{Memory: 4 << 20, Rules: []limit.RuleConfig{rule}})
		if err != nil {
			t.Fatal(err)
		}
		if got := newest(last.rules[0].next.node); got != next.rules[0] {
			t.Errorf("the successor is %p, want %p", got, next.rules[0])
		}
		next.rules[0].next.has.Store(false)
		if got := newest(last.rules[0].next.node); got != nil {
			t.Error("one that has not got all state is asked")
		}
		next.rules[0].next.has.Store(true)
		mu.Lock()
		last = next
		mu.Unlock()
	}
	close(stop)
	callers.Wait()
}
