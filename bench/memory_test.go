package bench

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
)

// TestMemory: in a flood of 300,000 clients fastlimit takes no more memory and
// holds the hitter, in both shapes; a limiter that forgets is seen to admit
// more, one that grows is stopped, and one that dies has its last words in the
// result.
func TestMemory(t *testing.T) {
	t.Parallel()
	contenders := []Contender{Fastlimit()}
	const perShape = 4
	for _, c := range testContenders() {
		if c.Name != "fails" {
			contenders = append(contenders, c)
		}
	}
	results, err := Memory(t.Context(), MemoryOptions{
		Options: Options{Contenders: contenders}, Keys: []int64{3e5}, Cap: 1 << 30,
	})
	if err != nil || len(results) != 2*perShape {
		t.Fatalf("%d results, error %v", len(results), err)
	}
	for i, r := range results {
		if want := floodName(i >= perShape); r.Workload != want || r.Keys != 3e5 {
			t.Errorf("%s: %s, %d keys, want %s", r.Limiter, r.Workload, r.Keys, want)
		}
		switch r.Limiter {
		case "fastlimit":
			checkHeld(t, r)
		case "forgets":
			if r.Error != "" || *r.HitterAdmitted < 2 {
				t.Errorf("forgetting: %s, admitted %v of the limit", r.Error, *r.HitterAdmitted)
			}
		case "grows":
			if !strings.Contains(r.Error, "grew past 1024 MiB at ") || *r.RSSBytes < 1<<30 || *r.RSSBytes > 2<<30 {
				t.Errorf("growing: %s, %v bytes", r.Error, *r.RSSBytes)
			}
		case "panics":
			if !strings.Contains(r.Error, "out of luck") {
				t.Errorf("panicking: %s", r.Error)
			}
		}
	}
}

// checkHeld is P3 of the design.
func checkHeld(t *testing.T, r Result) {
	t.Helper()
	if r.Error != "" {
		t.Fatal(r.Error)
	}
	if *r.FalseDenials != 0 || *r.Excess > 101 || *r.HitterAdmitted > 1.1 || *r.HitterAdmitted < 1 {
		t.Errorf("%s: %d false denials, excess %v, admitted %v of the limit", r.Workload, *r.FalseDenials, *r.Excess, *r.HitterAdmitted)
	}
	t.Logf("%s: %d KiB resident, %d KiB more than after warm-up", r.Workload, *r.RSSBytes>>10, *r.RSSGrowth>>10)
	if raceEnabled {
		return // the detector's shadow memory is counted too
	}
	if *r.RSSGrowth > 8<<20 || *r.RSSBytes > fastlimit.DefaultMemory+64<<20 {
		t.Errorf("%s: %d bytes resident, %d more than after warm-up", r.Workload, *r.RSSBytes, *r.RSSGrowth)
	}
}

func TestMemoryRefuses(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{-1, 0, 9, hitterID} {
		if _, err := Memory(t.Context(), MemoryOptions{Keys: []int64{n}}); err == nil {
			t.Errorf("%d keys: no error", n)
		}
	}
}

func TestMemoryCancelled(t *testing.T) {
	t.Parallel()
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	results, err := Memory(ctx, MemoryOptions{
		Options: Options{
			Contenders: []Contender{Fastlimit()},
			Progress: func(done, _ int, _ string) {
				if done == 1 {
					cancel(stop)
				}
			},
		},
		Keys: []int64{1e5},
	})
	if !errors.Is(err, stop) || len(results) != 1 {
		t.Errorf("%d results, error %v", len(results), err)
	}
}

// TestHitter: ten times the limit all the time, or for B/r with pauses of half
// of that.
func TestHitter(t *testing.T) {
	t.Parallel()
	rule := Rule{}.withDefaults()
	for _, c := range []struct {
		pulses bool
		want   map[int64]int64 // requests by second
	}{
		{false, map[int64]int64{0: 1000, 1: 1000, 2: 1000, 3: 1000, 4: 1000, 5: 1000}},
		{true, map[int64]int64{0: 1000, 1: 1000, 3: 1000, 4: 1000}},
	} {
		h, got := newHitter(rule, c.pulses), map[int64]int64{}
		for ms := range int64(6000) {
			for h.due(time.Duration(ms) * time.Millisecond) {
				got[ms/1000]++
			}
		}
		for s := range int64(6) {
			if got[s] != c.want[s] {
				t.Errorf("pulses %v, second %d: %d requests, want %d", c.pulses, s, got[s], c.want[s])
			}
		}
	}
}
