package machine

import (
	"errors"
	"runtime"
	"testing"
	"time"
)

func TestSince(t *testing.T) {
	t.Parallel()
	wall := time.Unix(1_700_000_000, 0)
	was := Instant{Machine: "m", Boot: "b", Up: time.Hour, Wall: wall}
	at := func(boot string, up, later time.Duration) Instant {
		return Instant{Machine: "m", Boot: boot, Up: up, Wall: wall.Add(later)}
	}
	none := Instant{Wall: wall}
	for what, c := range map[string]struct {
		was, now Instant
		age      time.Duration
		want     error
	}{
		"the same start":                         {was, at("b", 90*time.Minute, 30*time.Minute), 30 * time.Minute, nil},
		"the same moment":                        {was, was, 0, nil},
		"the wall clock was set back":            {was, at("b", 2*time.Hour, -time.Hour), time.Hour, nil},
		"the wall clock was set forward":         {was, at("b", 61*time.Minute, 1000*time.Hour), time.Minute, nil},
		"the same start, before":                 {was, at("b", 59*time.Minute, time.Hour), 0, ErrFuture},
		"another start":                          {was, at("c", time.Minute, 3*time.Hour), 3 * time.Hour, nil},
		"another start, and the wall clock back": {was, at("c", time.Minute, -time.Second), 0, ErrFuture},
		"another start that is longer ago":       {was, at("c", time.Hour, time.Hour-1), 0, ErrFuture},
		"another start as long ago":              {was, at("c", time.Hour, time.Hour), time.Hour, nil},
		"starts that are not known":              {none, Instant{Wall: wall.Add(time.Minute)}, time.Minute, nil},
		"a start that was not known":             {Instant{Machine: "m", Wall: wall}, at("c", time.Hour, time.Minute), time.Minute, nil},
		"another machine":                        {was, Instant{Machine: "n", Boot: "b", Up: 2 * time.Hour, Wall: wall}, 0, ErrOtherMachine},
	} {
		if age, err := c.now.Since(c.was); age != c.age || !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, %v; want %v, %v", what, age, err, c.age, c.want)
		}
	}
}

// TestNow: two readings are of one machine and start, and time passes between them.
func TestNow(t *testing.T) {
	t.Parallel()
	a := Now()
	b := Now()
	if age, err := b.Since(a); err != nil || age < 0 || age > time.Minute {
		t.Errorf("%v, %v", age, err)
	}
	if runtime.GOOS == "linux" && (a.Boot == "" || b.Up <= a.Up || a.Boot != b.Boot) {
		t.Errorf("%+v, then %+v", a, b)
	}
}
