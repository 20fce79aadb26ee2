package suggest

import (
	"slices"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
)

// Who stands out: those above the lowest gap, if they are few and need much.
func TestAttackers(t *testing.T) {
	t.Parallel()
	crowdOf := func(n int, need uint64, others ...uint64) []uint64 {
		return append(slices.Repeat([]uint64{need}, n), others...)
	}
	for _, tt := range []struct {
		name  string
		needs []uint64
		want  int
	}{
		{"nobody", crowdOf(100, 20), 0},
		{"one", crowdOf(99, 20, 100), 1},
		{"five times is enough, less is not", crowdOf(99, 21, 104), 0},
		{"below 100", crowdOf(99, 2, 99), 0},
		{"the lowest gap", crowdOf(97, 20, 100, 120, 9000), 3},
		{"no gap, but a slope", crowdOf(96, 20, 90, 400, 1500, 7000), 0},
		{"a tenth", crowdOf(90, 2, slices.Repeat([]uint64{500}, 10)...), 10},
		{"more than a tenth are a crowd", crowdOf(89, 2, slices.Repeat([]uint64{500}, 11)...), 0},
		{"one of five", crowdOf(4, 2, 500), 1},
		{"one of four", crowdOf(3, 2, 500), 0},
	} {
		if got := attackers(tt.needs); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestBest(t *testing.T) {
	t.Parallel()
	row := func(n uint64, per time.Duration, minute uint64, drain time.Duration) Row {
		return Row{pace: newPace(fastlimit.Rate{N: n, Per: per}), InAMinute: minute, drain: drain}
	}
	for _, tt := range []struct {
		name string
		rows []Row
		want int
	}{
		{"the fewest", []Row{row(1, time.Minute, 90, 0), row(2, time.Minute, 80, 0), row(5, time.Minute, 85, 0)}, 1},
		{"of equals the highest rate", []Row{row(1, time.Minute, 80, 0), row(2, time.Minute, 80, 0), row(5, time.Minute, 85, 0)}, 1},
		{"no quota", []Row{row(1, time.Hour, 10, time.Hour+1), row(1, time.Minute, 80, time.Hour)}, 1},
		{"only quotas", []Row{row(1, time.Hour, 10, 9*time.Hour), row(2, time.Hour, 12, 5*time.Hour)}, 1},
	} {
		if got := best(tt.rows); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
