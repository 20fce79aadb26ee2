package engine

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/limit"
)

// Clients within the strictest of all limits, as far as its queue allows, are denied and banned by none of up
// to five limiters that succeed each other while requests wait in all of them, whatever others do in the
// queue of a rule for all, and although those in between are gone.
func TestConformsThroughChainsOfReloads(t *testing.T) {
	t.Parallel()
	waited, sent := 0, 0
	for seed := range uint64(testkit.Size(10, 400)) {
		inBubbles(t, func(t *testing.T, c Config) {
			rng := rand.New(rand.NewPCG(seed, 11))
			rate, burst, most := uint64(2+rng.IntN(20)), 1+rng.Uint64N(4), time.Duration(rng.IntN(3000))*time.Millisecond
			config := func(step int) Config {
				own := waitRule("own", rate*(1+rng.Uint64N(4)), burst+rng.Uint64N(3), most)
				if most > 0 { // what waits for most at the strictest rate waits for less
					own.MaxWait = most*time.Duration(rate)/time.Duration(own.Rate.N) + time.Duration(1+rng.IntN(200))*time.Millisecond
				}
				if step == 0 {
					own.Rate.N, own.Burst, own.MaxWait = rate, burst, most
				}
				own.Ban = limit.BanPolicy{After: 1, For: time.Hour}
				next := c
				next.Memory = limit.MinMemory
				next.Rules = []limit.RuleConfig{own, waitRule("all", 5+rng.Uint64N(20), 1, 2*time.Second)}
				next.Wait.PerKey = 200
				return next
			}
			var mu sync.Mutex
			chain := []*Limiter{waiting(t, config(rng.IntN(2)))} // guarded by mu
			over := make(chan struct{})
			var running sync.WaitGroup
			for client := range byte(6) {
				rng := rand.New(rand.NewPCG(seed, 100+uint64(client)))
				running.Go(func() {
					level, before := 0.0, time.Now()
					room := float64(burst) + float64(rate)*most.Seconds() - 0.01
					leak := func() {
						now := time.Now()
						level, before = max(0, level-float64(rate)*now.Sub(before).Seconds()), now
					}
					for {
						select {
						case <-over:
							return
						case <-time.After(time.Duration(rng.IntN(2)) * time.Duration(rng.Int64N(int64(4*time.Second/time.Duration(rate))))):
						}
						if leak(); level+1 > room {
							time.Sleep(time.Duration((level + 1 - room) / float64(rate) * float64(time.Second)))
							leak()
						}
						level++
						mu.Lock()
						sent++
						lim := chain[rng.IntN(len(chain))] // the last two: requests that have begun by the one before
						mu.Unlock()
						running.Go(func() {
							own, all := lim.rules[0], lim.rules[1]
							key := own.BytesKey([]byte{client})
							d, by := lim.WaitAll(t.Context(), []Charge{{own, key, 1}, {all, all.BytesKey(nil), 1}})
							if !d.Allowed && by == 0 {
								t.Errorf("seed %d: client %d at %d/s, %d, wait %v: %+v", seed, client, rate, burst, most, d)
							}
						})
					}
				})
			}
			for step := range 4 {
				time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
				mu.Lock()
				last := chain[len(chain)-1]
				waited += int(last.rules[0].Stats().Waits.Waiting + last.rules[1].Stats().Waits.Waiting)
				next, err := last.With(config(step + 1))
				if err != nil {
					t.Fatal(err)
				}
				chain = []*Limiter{last, next}
				mu.Unlock()
				runtime.GC()
			}
			time.Sleep(time.Second)
			close(over)
			running.Wait()
			synctest.Wait()
			for _, lim := range chain {
				if n := lim.rules[0].Stats().Bans; n > 0 || lim.waiters.Slots() != 0 {
					t.Errorf("seed %d: %d bans, %d places", seed, n, lim.waiters.Slots())
				}
			}
		})
	}
	if waited < 20 || sent < 2000 {
		t.Errorf("too little has happened: %d waited at a change, %d requests", waited, sent)
	}
}
