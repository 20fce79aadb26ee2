package server

import (
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/policy"
)

func TestFitDescriptors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ files, want, lines int }{
		{0, 5000, 0}, {1 << 20, 5000, 0}, {5256, 5000, 0}, {5255, 4999, 1}, {1024, 768, 1}, {300, 150, 1}, {1, 1, 1},
	} {
		s := start(t, policy.Settings{Rules: perIP().Rules})
		s.config.Connections.Max = 5000
		s.fitDescriptors(tc.files)
		if s.config.Connections.Max != tc.want || s.logs.count("is lowered") != tc.lines {
			t.Errorf("%d files: %d, want %d; log:\n%s", tc.files, s.config.Connections.Max, tc.want, s.logs)
		}
		s.stop()
	}
}

// Running short is told once, and that it is over after a quiet minute.
func TestCrowdIsToldOnce(t *testing.T) {
	t.Parallel()
	s := start(t, perIP())
	w := crowdWatch{server: s.Server}
	for i, step := range []struct {
		crowded bool
		at      time.Duration
		lines   int
	}{
		{false, 0, 0}, {true, 1, 1}, {false, 2, 1}, {true, 3, 1}, {false, 4, 1}, {false, 62, 1}, {false, 63, 2}, {false, 64, 2}, {true, 65, 3},
	} {
		w.look(step.crowded, step.at*time.Second)
		if n := s.logs.count("nearly full"); n != step.lines {
			t.Errorf("step %d: %d lines, want %d", i, n, step.lines)
		}
	}
}
