package inproc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bench/oracle"
	"github.com/fastlimit/fastlimit/bench/report"
	"github.com/fastlimit/fastlimit/bench/workload"
	"github.com/fastlimit/fastlimit/limit"
)

// TestMemory: in a flood of 300,000 clients fastlimit takes no more memory and
// holds both hitters; a limiter that forgets is seen to admit more, one that
// denies others is seen to, one that grows is stopped, and one that dies has its
// last words in the result.
func TestMemory(t *testing.T) {
	t.Parallel()
	contenders := []Contender{Fastlimit()}
	for _, c := range testContenders() {
		if c.Name != "fails" {
			contenders = append(contenders, c)
		}
	}
	results, err := Memory(t.Context(), MemoryOptions{
		Options: Options{Contenders: contenders}, Keys: []int64{3e5}, Cap: 1 << 30,
	})
	if err != nil || len(results) != 2*len(contenders) {
		t.Fatalf("%d results, error %v", len(results), err)
	}
	for i, r := range results {
		if want := []string{"flood, steady hitter", "flood, hitter in pulses"}[i%2]; r.Workload != want || r.Keys != 3e5 {
			t.Errorf("%s: %s, %d keys, want %s", r.Limiter, r.Workload, r.Keys, want)
		}
		switch r.Limiter {
		case "fastlimit":
			checkHeld(t, r)
		case "forgets":
			if r.Error != "" || *r.HitterAdmitted < 2 || !strings.HasPrefix(r.Verdict, "loses the hitter") {
				t.Errorf("forgetting: %s, admitted %v of the limit, %s", r.Error, *r.HitterAdmitted, r.Verdict)
			}
		case "denies":
			if *r.FalseDenials < 2.9e4 || *r.ConformingDenied < 2.9e4 || !strings.HasSuffix(r.Verdict, "denies 10 % of the others") {
				t.Errorf("denying: %d false denials, %d of conforming clients, %s", *r.FalseDenials, *r.ConformingDenied, r.Verdict)
			}
		case "grows":
			if !strings.Contains(r.Error, "grew past 1024 MiB at ") || *r.RSSBytes < 1<<30 || *r.RSSBytes > 2<<30 ||
				!strings.Contains(r.Verdict, "memory grows") {
				t.Errorf("growing: %s, %v bytes, %s", r.Error, *r.RSSBytes, r.Verdict)
			}
		case "panics":
			if !strings.Contains(r.Error, "out of luck") || r.RSSBytes != nil || r.Verdict != "" {
				t.Errorf("panicking: %+v", r)
			}
		default:
			t.Errorf("%s is not tested", r.Limiter)
		}
	}
}

// TestMemorySharesFloods: a flood shows what it came to on its way, and one that
// takes too long says where it was stopped.
func TestMemorySharesFloods(t *testing.T) {
	t.Parallel()
	o := MemoryOptions{Keys: []int64{1e8, 1e6, 1e7, 1e6, 100}, Cap: 1 << 40}
	o, err := o.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(o.floods()); got != "[[100] [1000000] [10000000 100000000]]" {
		t.Errorf("floods of %s", got)
	}
	run := func(o MemoryOptions, keys ...int64) []report.Result {
		results, err := runFlood(t.Context(), o, Fastlimit(), keys, func(int64) {})
		if err != nil || len(results) != 2*len(keys) {
			t.Fatalf("%d results, error %v", len(results), err)
		}
		return results
	}
	results := run(o, 2e4, 1e5)
	if small, large := results[0], results[2]; small.Requests < 2e4 || small.Requests > 4e4 || large.Requests < 1e5 ||
		large.Requests > 2e5 || small.Keys != 2e4 || large.Keys != 1e5 || small.Error != "" || large.Error != "" {
		t.Errorf("%+v\n%+v", small, large)
	}
	o.Patience = 1
	for _, r := range run(o, 2e4, 1e5) {
		if r.Error != "stopped after 1ns at 0.002 million keys" || r.RSSBytes == nil || r.Verdict == "" {
			t.Errorf("without patience: %+v", r)
		}
	}
}

// TestFloodHidesTwo: one hitter sends ten times the limit all the time, the
// other two thirds of that, in pulses.
func TestFloodHidesTwo(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	j := floodJob{Keys: []int64{2e4}, Cap: 1 << 40, Patience: time.Hour}
	if err := j.run(Reference(), oracle.Rule{}.WithDefaults(), json.NewEncoder(&lines)); err != nil {
		t.Fatal(err)
	}
	var last answer
	for line := range strings.Lines(lines.String()) {
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range last.Flood.Results {
		if r.Requests < 36_980 || r.Requests > 37_020 || *r.HitterAdmitted != 1 {
			t.Errorf("%s: %d decisions, %v of the limit admitted, want 20,000, 10,000 and 7,000, and 1", r.Workload, r.Requests, *r.HitterAdmitted)
		}
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	rule := oracle.Rule{}.WithDefaults()
	for _, c := range []struct {
		excess         float64
		rss, warm, bad int64
		want           string
	}{
		{0, 100 << 20, 90 << 20, 0, "holds the hitter, memory is flat"},
		{200, 100 << 20, 80 << 20, 0, "holds the hitter, memory is flat"},
		{201, 101 << 20, 80 << 20, 0, "loses the hitter, memory grows"},
		{0, 10 << 20, 1 << 20, 0, "holds the hitter, memory is flat"},
		{0, 100 << 20, 0, 0, "holds the hitter, memory is flat"}, // stopped before it was warm
		{0, 0, 0, 5, "holds the hitter, memory is flat, denies 0.5 % of the others"},
	} {
		f := flood{rule: rule, warm: c.warm, innocents: c.bad}
		if got := f.verdict(c.excess, 1000, c.rss); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// checkHeld is P3 of the design.
func checkHeld(t *testing.T, r report.Result) {
	t.Helper()
	if r.Error != "" {
		t.Fatal(r.Error)
	}
	if r.Verdict != "holds the hitter, memory is flat" && !raceEnabled {
		t.Errorf("%s: %s", r.Workload, r.Verdict)
	}
	if *r.FalseDenials != 0 || *r.Excess > 101 || *r.HitterAdmitted > 1.1 || *r.HitterAdmitted < 1 {
		t.Errorf("%s: %d false denials, excess %v, admitted %v of the limit", r.Workload, *r.FalseDenials, *r.Excess, *r.HitterAdmitted)
	}
	t.Logf("%s: %d KiB resident, %d KiB more than after warm-up", r.Workload, *r.RSSBytes>>10, *r.RSSGrowth>>10)
	if raceEnabled {
		return // the detector's shadow memory is counted too
	}
	if *r.RSSGrowth > 8<<20 || *r.RSSBytes > limit.DefaultMemory+64<<20 {
		t.Errorf("%s: %d bytes resident, %d more than after warm-up", r.Workload, *r.RSSBytes, *r.RSSGrowth)
	}
}

func TestMemoryRefuses(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{-1, 0, 9, maxFlood} {
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
			Contenders: []Contender{Fastlimit(), Reference()},
			Progress: func(done, _ int, _ string) {
				if done == 1 {
					cancel(stop)
				}
			},
		},
		Keys: []int64{1e5},
	})
	if !errors.Is(err, stop) || len(results) != 2 {
		t.Errorf("%d results, error %v", len(results), err)
	}
}

// TestHitter: ten times the limit all the time, or for B/r with pauses of half
// of that.
func TestHitter(t *testing.T) {
	t.Parallel()
	rule := oracle.Rule{}.WithDefaults()
	for _, c := range []struct {
		pulses bool
		want   map[int64]int64 // requests by second
	}{
		{false, map[int64]int64{0: 1000, 1: 1000, 2: 1000, 3: 1000, 4: 1000, 5: 1000}},
		{true, map[int64]int64{0: 1000, 1: 1000, 3: 1000, 4: 1000}},
	} {
		h, err := newHitter(rule, workload.V4(1), c.pulses)
		if err != nil {
			t.Fatal(err)
		}
		got := map[int64]int64{}
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
