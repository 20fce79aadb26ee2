package load

import (
	"testing"
	"time"
)

// A sleep is not short, and stop ends one that is long, and all after it.
func TestAlarm(t *testing.T) {
	t.Parallel()
	a, err := newAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	for _, d := range []time.Duration{1, time.Microsecond, time.Millisecond, 5 * time.Millisecond} {
		begin := time.Now()
		if a.sleep(d); time.Since(begin) < d {
			t.Errorf("slept %v, want %v", time.Since(begin), d)
		}
	}
	time.AfterFunc(10*time.Millisecond, a.stop)
	a.sleep(time.Hour)
	a.sleep(time.Hour)
}
