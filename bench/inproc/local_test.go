package inproc

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bench/oracle"
	"github.com/fastlimit/fastlimit/bench/report"
)

// TestLocal: every limiter has a figure for every workload and number of
// cores, the harness and the clock have their own lines, fastlimit allocates
// nothing, and a limiter that fails does not stop the others.
func TestLocal(t *testing.T) {
	t.Parallel()
	results, err := Local(t.Context(), LocalOptions{
		Options: Options{Contenders: []Contender{Fastlimit(), testContenders()[0], testContenders()[1]}},
		Rounds:  3, Round: time.Millisecond, Cores: []int{1, runtime.NumCPU()},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, r := range results {
		got[r.Limiter]++
		switch r.Limiter {
		case "fails":
			if r.Error != "no such luck" {
				t.Errorf("failing: %+v", r)
			}
			continue
		case "panics":
			if !strings.Contains(r.Error, "out of luck") {
				t.Errorf("panicking: %+v", r)
			}
			continue
		case "fastlimit":
			if *r.AllocsPerOp > 0.05 { // the harness has a few in each of these short rounds
				t.Errorf("%s on %d cores: %v allocations", r.Workload, r.Cores, *r.AllocsPerOp)
			}
		}
		if r.Error != "" || *r.NsPerOp <= 0 || *r.PerSecond <= 0 || r.Requests == 0 || r.Setup == "" {
			t.Errorf("%+v", r)
		}
	}
	want := map[string]int{"fastlimit": 1 + 8, "time.Now": 1, "none": 8, "fails": 8, "panics": 8}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s: %d results, want %d", name, got[name], n)
		}
	}
}

func TestLocalRefuses(t *testing.T) {
	t.Parallel()
	for _, o := range []LocalOptions{
		{Workloads: []string{"zipf"}}, {Cores: []int{0}}, {Cores: []int{1, 1 + runtime.NumCPU()}},
	} {
		if results, err := Local(t.Context(), o); err == nil {
			t.Errorf("%+v: %d results and no error", o, len(results))
		}
	}
}

// TestLocalCancelled: rounds that were measured make results.
func TestLocalCancelled(t *testing.T) {
	t.Parallel()
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	results, err := Local(ctx, LocalOptions{
		Options: Options{
			Contenders: []Contender{Fastlimit()},
			Progress: func(done, _ int, _ string) {
				if done == 2 {
					cancel(stop)
				}
			},
		},
		Workloads: []string{"hot-denied"}, Cores: []int{1}, Round: time.Millisecond,
	})
	at := slices.IndexFunc(results, func(r report.Result) bool { return r.Limiter == "fastlimit" && r.Workload == "hot-denied" })
	if !errors.Is(err, stop) || at < 0 || results[at].NsPerOp == nil {
		t.Errorf("%d results, error %v", len(results), err)
	}
}

// TestChildRefuses what it does not understand.
func TestChildRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"nonsense":                          childCommand,
		`{"Contender":"nobody","Speed":{}}`: `"nobody"`,
		`{"Contender":"none"}`:              "no job",
		`{"Contender":"none","Speed":{"Workload":"x","Cores":1}}`: `"x"`,
	} {
		err := runJob(text, nil, strings.NewReader(""), json.NewEncoder(&strings.Builder{}))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", text, err, want)
		}
	}
}

// A speed job answers that it is ready, and once for each round that it is asked for.
func TestSpeedJob(t *testing.T) { // not parallel: it sets GOMAXPROCS
	cores := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(cores)
	for n := 1; n <= 2; n++ {
		var out strings.Builder
		text, err := json.Marshal(job{Contender: "fastlimit", Rule: oracle.Rule{}.WithDefaults(), Speed: &speedJob{Workload: "hot-denied", Cores: n, Round: time.Millisecond}})
		if err != nil {
			t.Fatal(err)
		}
		if err := runJob(string(text), nil, strings.NewReader("\n\n"), json.NewEncoder(&out)); err != nil {
			t.Fatal(err)
		}
		lines := json.NewDecoder(strings.NewReader(out.String()))
		for i := range 3 {
			var a answer
			if err := lines.Decode(&a); err != nil || a.Round == nil || (a.Round.Ops > 0) != (i > 0) {
				t.Errorf("%d cores, answer %d: %+v, %v", n, i, a.Round, err)
			}
		}
		if lines.More() {
			t.Errorf("%d cores: more answers: %s", n, out.String())
		}
	}
}

// TestFasterThanReference is the guard against a regression that makes
// fastlimit slow: in one process, in turns with the frozen reference. It holds
// the fastest of many short rounds against each other, which interruptions
// cannot make faster, and asks for less than half of what is measured on a
// quiet machine; it gives up only when no attempt succeeds.
func TestFasterThanReference(t *testing.T) {
	if raceEnabled {
		return // it would measure the detector
	}
	for workload, want := range map[string]float64{"zipf-1.1": 1.5, "distinct": 2.5, "hot-denied": 1.5} {
		t.Run(workload, func(t *testing.T) {
			ratio := 0.0
			for range 10 {
				if ratio = max(ratio, speedRatio(t, workload)); ratio >= want {
					return
				}
			}
			t.Errorf("%.2f times as fast as the reference, want %v", ratio, want)
		})
	}
}

// speedRatio is how many times as fast as the reference fastlimit is.
func speedRatio(t *testing.T, workload string) float64 {
	t.Helper()
	f, err := newFeed(workload, 1)
	if err != nil {
		t.Fatal(err)
	}
	fastest := [2]float64{}
	var runs [2]speedRun
	for i, c := range []Contender{Fastlimit(), Reference()} {
		l, err := c.New(oracle.Rule{}.WithDefaults())
		if err != nil {
			t.Fatal(err)
		}
		runs[i] = speedRun{limiter: l, feed: f, cores: 1}
		runs[i].run(speedKeys / 2)
	}
	for range 20 {
		for i := range runs {
			ns := runs[i].run(10_000).nsPerOp()
			if fastest[i] == 0 || ns < fastest[i] {
				fastest[i] = ns
			}
		}
	}
	return fastest[1] / fastest[0]
}
