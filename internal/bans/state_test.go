package bans

import (
	"encoding/json"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestSavedBans: those of operators run on in the next process, for as long as they have
// left, and none that it could not have set.
func TestSavedBans(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := build(t)
		w.ban("192.0.2.0/24", "1h")
		w.ban("10.0.0.2", "10m")
		w.ban("10.0.0.2", "10m")
		w.ban("10.0.0.3", "2m")
		w.ban("10.0.0.4", "1s")
		time.Sleep(time.Minute)
		b, err := json.Marshal(w.Save())
		if err != nil {
			t.Fatal(err)
		}
		var saved []Saved
		if err := json.Unmarshal(b, &saved); err != nil || len(saved) != 3 {
			t.Fatalf("%d saved, %v: %s", len(saved), err, b)
		}
		next := build(t)
		next.ban("192.0.2.0/24", "30m") // which ends sooner
		next.ban("10.0.0.2", "1h")      // later
		saved = append(saved, Saved{netip.MustParsePrefix("0.0.0.0/0"), time.Hour, 1, ""}, Saved{netip.MustParsePrefix("10.0.0.9/24"), time.Hour, 1, ""}, Saved{}, Saved{netip.MustParsePrefix("10.1.0.0/16"), time.Hour, 0, ""})
		if n := next.Restore(saved, 5*time.Minute); n != 1 {
			t.Errorf("%d of them run because of it, want 1", n)
		}
		got, _ := next.list("", 10)
		if want := []string{"10.0.0.2  operator 3600 1 false", "192.0.2.0/24  operator 3240 1 false"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if d := next.banned("192.0.2.1"); d != 54*time.Minute {
			t.Errorf("banned for %v", d)
		}
		time.Sleep(54 * time.Minute)
		if got, _ := next.list("", 10); len(got) != 1 {
			t.Errorf("after their end: %q", got)
		}
	})
}
