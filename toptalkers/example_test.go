package toptalkers_test

import (
	"fmt"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/toptalkers"
)

// A program that has a limiter of its own ticks once a second, from a ticker of
// its own.
func ExampleRanking() {
	lim, err := fastlimit.New(fastlimit.Config{
		TopTalkers: 1024,
		Rules:      []fastlimit.RuleConfig{{Name: "per-key", Rate: fastlimit.Rate{N: 100, Per: time.Second}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	rule, _ := lim.Rule("per-key")
	top := toptalkers.New("edge-1", lim.Rules())
	top.Tick(lim.Now()) // then once a second
	for range 250 {
		rule.Allow(rule.BytesKey([]byte("alice")))
	}
	for _, t := range top.Top(3, lim.Now()) {
		fmt.Println(t.Rule, t.Key, t.Rate > 100)
	}
	// Output: per-key alice true
}
