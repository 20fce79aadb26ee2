package engine

import (
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

func TestManualClockStart(t *testing.T) {
	t.Parallel()
	clock := new(ManualClock)
	lim, err := New(Config{Rules: []limit.RuleConfig{withStrict(windowRule("a", 2, time.Hour))}, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 11, 22, 14, 59, 30, 0, time.UTC)
	clock.SetStart(start)
	r := lim.rules[0]
	key := r.BytesKey([]byte("client"))
	for _, s := range []struct {
		now, retry time.Duration
		left       int64
	}{
		{0, 0, 1},
		{0, 0, 0},
		{0, 30 * time.Second, 0},
		{29 * time.Second, time.Second, 0},
		{30 * time.Second, 0, 1},
		{31 * time.Second, 0, 0},
		{32 * time.Second, time.Hour - 2*time.Second, 0},
	} {
		clock.Set(s.now)
		d := r.Take(t.Context(), key, 1)
		if d.Allowed != (s.retry == 0) || d.RetryAfter != s.retry || d.Remaining != s.left || d.TimeToEmpty != time.Hour-(s.now+59*time.Minute+30*time.Second)%time.Hour {
			t.Errorf("at %v: %+v", s.now, d)
		}
	}
	clock.SetStart(start.Add(time.Hour)) // as after a silence that was left out
	if d := r.Take(t.Context(), key, 2); !d.Allowed {
		t.Errorf("an hour later: %+v", d)
	}
}
