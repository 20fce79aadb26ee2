package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bench/inproc"
	"github.com/fastlimit/fastlimit/bench/report"
	"github.com/fastlimit/fastlimit/bench/workload"
)

func TestMain(m *testing.M) {
	inproc.RunChild(func([]string) []inproc.Contender { return contenders(flags{}) })
	os.Exit(m.Run())
}

func TestParseKeys(t *testing.T) {
	t.Parallel()
	if got, err := parseKeys("1e6,20000000"); err != nil || !slices.Equal(got, []int64{1e6, 2e7}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "1e6,", "1.5", "many", "NaN", "1e300"} {
		if _, err := parseKeys(text); err == nil || !strings.Contains(err.Error(), "-keys") {
			t.Errorf("%q: error %v, want one that names the flag", text, err)
		}
	}
}

func TestContenders(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range contenders(flags{redis: "redis://127.0.0.1:1/0"}) {
		if seen[c.Name] {
			t.Errorf("two contenders are called %q", c.Name)
		}
		seen[c.Name] = true
	}
	if len(seen) != 10 { // fastlimit three times, and seven others
		t.Errorf("%d contenders", len(seen))
	}
	if only := contenders(flags{only: "fastlimit,throttled"}); len(only) != 2 {
		t.Errorf("%d contenders, want the two that were named", len(only))
	}
}

// TestMeasure: one short run of everything over every peer that needs no
// server leaves no result without a figure.
func TestMeasure(t *testing.T) {
	t.Parallel()
	f := flags{groups: "accuracy,memory", keys: "1e4", requests: 2000, duration: 50 * time.Millisecond, only: "fastlimit,throttled,two-window sketch"}
	var r report.Report
	if err := measure(t.Context(), f, contenders(f), &r); err != nil {
		t.Fatal(err)
	}
	if want := 3*len(workload.All()) + 3*2; len(r.Results) != want {
		t.Errorf("%d results, want %d", len(r.Results), want)
	}
	for _, r := range r.Results {
		if r.Error != "" || r.FalseDenials == nil {
			t.Errorf("%s, %s: %q", r.Workload, r.Limiter, r.Error)
		}
	}
}

// TestMeasureRefuses bad flags before it measures anything.
func TestMeasureRefuses(t *testing.T) {
	t.Parallel()
	for _, f := range []flags{
		{groups: "local,http", keys: "1e6"},
		{groups: "memory", keys: "x"},
		{groups: "local", keys: "1e6", only: "nobody"},
		{groups: "memory", keys: "1e4", redis: "redis://127.0.0.1:1/0?dial_timeout=100ms&max_retries=-1"},
	} {
		var r report.Report
		if err := measure(context.Background(), f, contenders(f), &r); err == nil || len(r.Results) > 0 {
			t.Errorf("%+v: error %v, %d results", f, err, len(r.Results))
		}
	}
}

// TestMeasureInterrupted: what was measured by then is kept.
func TestMeasureInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	f := flags{groups: "memory", keys: "1e4", only: "fastlimit"}
	time.AfterFunc(time.Second, cancel)
	var r report.Report
	for range 1000 { // far more than there is time for
		if err := measure(ctx, f, contenders(f), &r); err != nil {
			if ctx.Err() == nil {
				t.Fatal(err)
			}
			break
		}
	}
	if ctx.Err() == nil || len(r.Results) == 0 {
		t.Errorf("%d results, %v", len(r.Results), ctx.Err())
	}
}
