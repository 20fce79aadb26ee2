package decide

import (
	"net/http"
	"testing"
	"time"
)

// The Date of an answer is that of its second.
func TestDates(t *testing.T) {
	var d dates
	now := time.Now()
	for _, at := range []time.Duration{0, time.Millisecond, time.Second, time.Hour, 59 * time.Minute} {
		want := "Date: " + now.Add(at).UTC().Format(http.TimeFormat) + "\r\n"
		if got := string(d.at(now.Add(at))); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { d.at(now) }); n > 0 {
		t.Errorf("%v allocations within a second", n)
	}
}
