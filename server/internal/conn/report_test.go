package conn

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// Running short is logged once, and its end after a quiet minute.
func TestFullIsReportedOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := New(Limits{Max: 10}, slog.New(slog.NewTextHandler(&out, nil)))
	for i, step := range []struct {
		crowded bool
		at      time.Duration
		lines   int
	}{
		{false, 0, 0}, {true, 1, 1}, {false, 2, 1}, {true, 3, 1}, {false, 4, 1}, {false, 62, 1}, {false, 63, 2}, {false, 64, 2}, {true, 65, 3},
	} {
		c.crowded.Store(step.crowded)
		c.EndSecond(step.at * time.Second)
		if n := strings.Count(out.String(), "nearly full"); n != step.lines {
			t.Errorf("step %d: %d lines, want %d", i, n, step.lines)
		}
	}
}
