package span

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
)

const day = 24 * time.Hour

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"7d": 7 * day, "1d12h": 36 * time.Hour, "12h1d": 36 * time.Hour, "1.5d": 36 * time.Hour, ".5d": 12 * time.Hour, "-1d": -day, "+1d": day, "0d": 0, "0.1d": 144 * time.Minute,
		"1h30m": 90 * time.Minute, "0": 0, "1µs": time.Microsecond, "106751d": 106751 * day,
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "1", "1e3d", "1dd", "1 d", "1D", "1..5d", ".d", "106752d", "99999999999999999999d", "1w", "1d1", "NaNd", "0x1d", "1_0d", "day"} {
		if got, err := Parse(text); err == nil || !strings.Contains(err.Error(), "1d12h") {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// FuzzParse: what package time takes is the same here, and days are what they are in hours.
func FuzzParse(f *testing.F) {
	f.Add("1h30m", uint16(3))
	f.Add("-1.5h", uint16(0))
	f.Fuzz(func(t *testing.T, text string, n uint16) {
		want, wantErr := time.ParseDuration(text)
		got, err := Parse(text)
		if wantErr == nil && (err != nil || got != want) {
			t.Fatalf("%q: %v, %v, want %v", text, got, err, want)
		}
		if wantErr != nil && err == nil && !strings.Contains(text, "d") {
			t.Fatalf("%q: %v", text, got)
		}
		whole := time.Duration(n) * day
		if wantErr != nil || text == "0" || strings.ContainsAny(text, "+-") || want > math.MaxInt64-whole {
			return
		}
		if got, err := Parse(strconv.Itoa(int(n)) + "d" + text); err != nil || got != whole+want {
			t.Fatalf("%d days and %q: %v, %v, want %v", n, text, got, err, whole+want)
		}
	})
}

func TestShort(t *testing.T) {
	t.Parallel()
	for x, want := range map[float64]string{0: "0s", 119: "119s", 120: "2m", 3600: "1h00m", 12_345: "3h25m", 200_000: "2d", 1e300: "11574d"} {
		if got := Short(x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
}
