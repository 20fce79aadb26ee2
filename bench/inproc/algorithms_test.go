package inproc

import (
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bench/workload"
	"github.com/fastlimit/fastlimit/bucket"
)

// Every algorithm is measured in both ways, and what the two workloads of one client
// are named for is what happens: all are admitted, or all but the burst and what leaks in
// the time that the test takes.
func TestAlgorithms(t *testing.T) {
	t.Parallel()
	all := Algorithms()
	if len(all) != 2*int(bucket.NumAlgorithms) {
		t.Fatalf("%d contenders for %d algorithms", len(all), bucket.NumAlgorithms)
	}
	for _, c := range append(all, Fastlimit(), FastlimitClock(), Reference()) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			allowed, l := admitted(t, c, "hot-allowed")
			if allowed != hotRequests {
				t.Errorf("hot-allowed: %d of %d admitted", allowed, hotRequests)
			}
			// Suspicion does not start below a billion, so that only strict rules check exactly.
			if e, ok := l.(Escalator); ok && (e.Escalated() == hotRequests) != strings.HasSuffix(c.Name, "strict") {
				t.Errorf("hot-allowed: %d of %d checked exactly", e.Escalated(), hotRequests)
			}
			if allowed, _ := admitted(t, c, "hot-denied"); allowed < 200 || allowed > hotRequests/2 {
				t.Errorf("hot-denied: %d of %d admitted", allowed, hotRequests)
			}
		})
	}
}

const hotRequests = 10_000

// admitted is how many requests of a workload a limiter admits.
func admitted(t *testing.T, c Contender, name string) (n int, l Limiter) {
	t.Helper()
	f, err := newFeed(name, 1)
	if err != nil {
		t.Fatal(err)
	}
	if l, err = c.New(speedRule(name, Options{}.withDefaults().Rule)); err != nil {
		t.Fatal(err)
	}
	for i := range hotRequests {
		if l.Allow(workload.V4(f.ids[i%len(f.ids)]), f.step*time.Duration(i)) {
			n++
		}
	}
	return n, l
}
