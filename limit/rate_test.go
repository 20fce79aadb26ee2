package limit

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseRate(t *testing.T) {
	t.Parallel()
	good := map[string]Rate{
		"100/s": {100, time.Second}, "600/m": {600, time.Minute}, "5/h": {5, time.Hour},
		"1/d": {1, 24 * time.Hour}, "300/15m": {300, 15 * time.Minute}, "1000000000/s": {1e9, time.Second},
	}
	for s, want := range good {
		got, err := ParseRate(s)
		if err != nil || got != want || got.String() != s {
			t.Errorf("ParseRate(%q) = %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "100", "/s", "0/s", "-1/s", "1.5/s", "1/", "1/x", "1/0s", "1/s s", "1/-1s", "1/99999999d", "99999999999999999999/s", "1e3/s", " 1/s"} {
		if got, err := ParseRate(s); err == nil {
			t.Errorf("ParseRate(%q) = %v, want an error", s, got)
		} else if !strings.Contains(err.Error(), "100/s") {
			t.Errorf("ParseRate(%q): %v: does not say what to write", s, err)
		}
	}
}

func TestRateRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour}).Draw(t, "unit")
		r := Rate{N: rapid.Uint64Range(1, 1e9).Draw(t, "n"), Per: time.Duration(rapid.IntRange(1, 366).Draw(t, "count")) * unit}
		if got, err := ParseRate(r.String()); err != nil || got != r {
			t.Fatalf("%v reads back as %v, %v", r, got, err)
		}
	})
}

// A rate that a message suggests can be parsed, even if the period of the original rate
// cannot.
func TestRateInSeconds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rate Rate
		want string
	}{
		{Rate{3, 2 * time.Millisecond}, "1500/s"},
		{Rate{1, 334 * time.Millisecond}, "500/167s"},
		{Rate{5, 1500 * time.Millisecond}, "10/3s"},
		{Rate{5, time.Minute}, "5/m"},
		{Rate{7, 7 * time.Second}, "7/7s"},
		{Rate{math.MaxUint64, time.Millisecond}, "18446744073709551615/1ms"},
		{Rate{}, "0/0s"},
	} {
		if got := tt.rate.inSeconds(); got.String() != tt.want {
			t.Errorf("%v: got %v, want %s", tt.rate, got, tt.want)
		}
	}
	_, err := NewPlan(Config{Rules: []RuleConfig{{Name: "odd", Rate: Rate{700_001, 7 * time.Millisecond}}}})
	if err == nil || !strings.Contains(err.Error(), "rate 700001/7ms cannot be kept exactly: write 100000000/s") {
		t.Error(err)
	}
}
