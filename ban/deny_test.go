package ban

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// fullOf returns a table of two sets in which each client has denials and none is banned.
func fullOf(t *testing.T, p *Policy, r *rand.Rand, denials func() int) *Table {
	t.Helper()
	tb := newTable(2, p.Within)
	for range 2 * ways {
		d := randomDigest(r)
		for range denials() {
			if tb.Deny(p, d, 0) {
				t.Fatal("a ban is due")
			}
		}
	}
	return tb
}

// A client that is denied once replaces one with 9 denials one time in 10, and one with none
// left always.
func TestNewcomersChance(t *testing.T) {
	t.Parallel()
	p := mustPolicy(Policy{After: 50, For: time.Hour})
	r := rand.New(rand.NewPCG(7, 8))
	const trials = 10_000
	nine := func() int { return 9 }
	entered := 0
	for range trials {
		tb, d := fullOf(t, &p, r, nine), randomDigest(r)
		tb.Deny(&p, d, 0)
		if has(tb, d) {
			entered++
		}
	}
	if entered < trials*8/100 || entered > trials*12/100 {
		t.Errorf("%d of %d took the place of a client with 9 denials, want a tenth", entered, trials)
	}
	tb, d := fullOf(t, &p, r, nine), randomDigest(r)
	tb.Deny(&p, d, 2*p.Within)
	if !has(tb, d) {
		t.Error("no place beside clients whose denials were too long ago")
	}
}

// A ban that another source reports finds room beside clients that are not banned, however
// often they were denied, until both sets are full of bans.
func TestRoomForBans(t *testing.T) {
	t.Parallel()
	p := mustPolicy(Policy{After: 50, For: time.Hour})
	r := rand.New(rand.NewPCG(9, 10))
	for range 100 {
		tb := fullOf(t, &p, r, func() int { return 1 + r.IntN(49) })
		for i := range 2 * most {
			d := randomDigest(r)
			for x, y := tb.sets(d); x == y; x, y = tb.sets(d) {
				d = randomDigest(r)
			}
			if left := tb.Impose(&p, d, 0, time.Hour, 1, nil); left != time.Hour {
				t.Fatalf("ban %d is for %v", i, left)
			}
		}
		if left := tb.Impose(&p, randomDigest(r), 0, time.Hour, 1, nil); left != 0 {
			t.Fatalf("one more for %v", left)
		}
	}
}

func has(tb *Table, d sketch.Digest) bool { r, _ := tb.find(d); return r != nil }
