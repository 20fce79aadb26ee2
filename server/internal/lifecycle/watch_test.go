package lifecycle

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
)

func TestRuleWatchTellsChangesOnce(t *testing.T) {
	t.Parallel()
	logs := new(strings.Builder)
	w := ruleWatch{log: slog.New(slog.NewTextHandler(logs, nil))}
	for step, c := range []struct {
		at        time.Duration
		load      float64
		evictions uint64
		lines     int // in all, after this step
	}{
		{1, 0.5, 0, 0},
		{2, 0.51, 0, 1}, // overloaded
		{3, 0.9, 0, 1},
		{4, 0.45, 0, 1}, // between the thresholds nothing is said
		{5, 0.6, 0, 1},
		{6, 0.39, 0, 2}, // recovered
		{7, 0.45, 0, 2},
		{8, 0, 7, 3}, // evictions began
		{9, 0, 9, 3},
		{9 + 59, 0, 9, 3},
		{9 + 60, 0, 9, 4}, // ended
		{9 + 61, 0, 10, 5},
	} {
		w.look(fastlimit.RuleStats{SketchLoad: c.load, Evictions: c.evictions}, c.at*time.Second)
		if n := strings.Count(logs.String(), "\n"); n != c.lines {
			t.Errorf("step %d: %d lines, want %d:\n%s", step, n, c.lines, logs)
		}
	}
}
