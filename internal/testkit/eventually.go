package testkit

import "time"

// margin is what is left of the time of all tests, to say what has failed.
const margin = 10 * time.Second

// forever is how long is waited where nothing says: as long as go test lets a package run.
const forever = 10 * time.Minute

// Deadline is until when a test may wait for what must happen: until the time of all tests
// is nearly up. Machines differ too much for less.
func Deadline(t T) time.Time {
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, ok := d.Deadline(); ok {
			return end.Add(-min(margin, time.Until(end)/10))
		}
	}
	return time.Now().Add(forever)
}

// Eventually waits until ok holds, which is asked often at first.
func Eventually(t T, what string, ok func() bool) {
	t.Helper()
	end := Deadline(t)
	for pause := time.Millisecond; !ok(); pause = min(2*pause, 50*time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(pause)
	}
}
