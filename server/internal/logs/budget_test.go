package logs

import "testing"

func TestBudget(t *testing.T) {
	t.Parallel()
	var s Budget
	if s.Take() {
		t.Error("the zero value has a budget")
	}
	for step, c := range []struct {
		total, suppressed uint64
		lines             int // of 5 events after the refill
	}{
		{0, 0, 2},
		{5, 3, 2},
		{10, 3, 2},
		{10, 0, 2},
		{1000, 986, 2},
		{1000, 0, 2}, // what was logged is not in the total yet
		{1005, 1, 2},
	} {
		if got := s.Refill(2, c.total); got != c.suppressed {
			t.Errorf("step %d: %d suppressed, want %d", step, got, c.suppressed)
		}
		lines := 0
		for range 5 {
			if s.Take() {
				lines++
			}
		}
		if lines != c.lines {
			t.Errorf("step %d: %d lines", step, lines)
		}
	}
	s.Refill(-1, 2000)
	if s.Take() {
		t.Error("a negative budget logs")
	}
}
