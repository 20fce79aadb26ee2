package ban

import (
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/field"
)

func TestPolicy(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, tt := range []struct {
		p    Policy
		want Policy
		bad  string // fields
	}{
		{Policy{}, Policy{}, ""},
		{Policy{After: 1, For: time.Second}, Policy{1, 10 * time.Second, time.Second, time.Second}, ""},
		{Policy{200, time.Minute, time.Minute, time.Hour}, Policy{200, time.Minute, time.Minute, time.Hour}, ""},
		{Policy{MaxAfter, MaxWithin, MaxFor, MaxFor}, Policy{MaxAfter, MaxWithin, MaxFor, MaxFor}, ""},
		{Policy{For: time.Minute}, Policy{}, "After"},
		{Policy{After: -1, For: time.Minute}, Policy{}, "After"},
		{Policy{After: MaxAfter + 1, For: time.Minute}, Policy{}, "After"},
		{Policy{After: 1}, Policy{}, "For"},
		{Policy{After: 1, For: time.Second - 1}, Policy{}, "For"},
		{Policy{After: 1, For: 366*day + 1}, Policy{}, "For"},
		{Policy{After: 1, For: time.Hour, Max: time.Hour - 1}, Policy{}, "Max"},
		{Policy{After: 1, For: time.Hour, Max: 366*day + 1}, Policy{}, "Max"},
		{Policy{After: 1, For: time.Hour, Within: 10*time.Minute + 1}, Policy{}, "Within"},
		{Policy{After: 1, For: time.Hour, Within: time.Second - 1}, Policy{}, "Within"},
		{Policy{After: -1, Within: -1, For: -1, Max: -2}, Policy{}, "After Within For"},
	} {
		got, err := tt.p.WithDefaults()
		var bad []string
		for _, e := range field.All(err) {
			if bad = append(bad, strings.TrimPrefix(e.Field, "Ban.")); e.Fix == "" || e.Problem == "" {
				t.Errorf("%+v: %v: says too little", tt.p, e)
			}
		}
		if strings.Join(bad, " ") != tt.bad || tt.bad == "" && got != tt.want {
			t.Errorf("%+v: %+v, wrong %v, want %+v, wrong %q", tt.p, got, bad, tt.want, tt.bad)
		}
	}
}

// The lengths of bans as documented: doubled up to Max, halved after ten of them.
func TestLengths(t *testing.T) {
	t.Parallel()
	p := mustPolicy(Policy{After: 9, For: 30 * time.Second, Max: 3 * time.Minute})
	length := time.Duration(0)
	for _, want := range []time.Duration{30, 60, 120, 180, 180} {
		if length = p.next(length); length != want*time.Second {
			t.Errorf("%v, want %v s", length, want)
		}
	}
	for _, tt := range []struct{ length, since, want time.Duration }{
		{180, 1799, 180},
		{180, 1800, 90},
		{180, 1800 + 899, 90},
		{180, 1800 + 900, 45},
		{180, 1800 + 900 + 449, 45},
		{180, 1800 + 900 + 450, 0},
		{30, 299, 30},
		{30, 300, 0},
		{0, 0, 0},
	} {
		if got := p.fade(tt.length*time.Second, tt.since*time.Second); got != tt.want*time.Second {
			t.Errorf("%d s, %d s after its end: %v, want %d s", tt.length, tt.since, got, tt.want)
		}
	}
	if p.needs(false) != 9 || p.needs(true) != 2 {
		t.Errorf("needs %d and %d", p.needs(false), p.needs(true))
	}
	if p.fade(p.Max, p.Memory()) != 0 {
		t.Error("remembered for longer than Memory")
	}
}
