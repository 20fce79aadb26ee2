package bucket

import (
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// TestNoAllocations: nothing on the path of a request allocates.
func TestNoAllocations(t *testing.T) {
	tb := newTable(t, 8)
	d := sketch.Digest{Pos: 1, ID: 2}
	now := uint64(1 << 50)
	s := tb.shape
	for name, op := range map[string]func(){
		"Lookup":        func() { tb.Lookup(d) },
		"Take, fits":    func() { tb.Take(d, now, 1) },
		"Take, denied":  func() { tb.Take(d, now, s.Cost(21)) },
		"Take, evicts":  func() { tb.Take(sketch.Digest{ID: now}, now, s.Unit()) },
		"Settle":        func() { tb.Settle(d, now, 1, now+5) },
		"Refund":        func() { tb.Refund(d, now, 1) },
		"Reset":         func() { tb.Reset(d) },
		"Sweep":         func() { tb.Sweep(now, 0, 1) },
		"Live":          func() { tb.Live(now, 8) },
		"Shape":         func() { s.RetryAfter(now, now, s.Cost(1)); s.Remaining(now, now); s.TimeToEmpty(now, now) },
		"Ticks, Fits":   func() { s.Fits(s.Ticks(time.Duration(now)), now, 1) },
		"Add, Sub":      func() { _ = Sub(Add(now, now, 1), now, 1) },
		"WithSlack":     func() { s = s.WithSlack(0) },
		"Lookup absent": func() { tb.Lookup(sketch.Digest{ID: now}) },
	} {
		if n := testing.AllocsPerRun(100, func() { now += 7; op() }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
