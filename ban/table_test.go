package ban

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// world is a table with its oracle.
type world struct {
	t   *Table
	o   *oracle
	now time.Duration // the latest time
	all []sketch.Digest

	// roomy: the table never has to give anybody up, so that it is the oracle's equal. Else
	// nobody may be banned whom the oracle would not ban, and bans last.
	roomy bool
}

func newWorld(p Policy, sets int, roomy bool, all []sketch.Digest) *world {
	return &world{t: newTable(sets, p.Within), o: newOracle(p), all: all, roomy: roomy}
}

// deny denies a client at a time, which may be older than the latest.
func (w *world) deny(client int, at time.Duration) error {
	d, p := w.all[client], &w.o.p
	w.now = max(w.now, at)
	c := w.o.of(d)
	if !w.roomy && at < c.end && c.end <= w.now {
		at = w.now // a table that has forgotten the ban would count it
	}
	was, left := *c, w.o.remembered(c, w.now)
	want := w.o.deny(d, at, w.now)
	var b Ban
	var running, begun bool
	if w.t.Deny(p, d, at) {
		b, running, begun = w.t.Begin(p, d, w.now, []byte{byte(client)})
	}
	switch {
	case begun && !want && !w.roomy:
		return fmt.Errorf("client %d is banned at %v: %d denials within %v, remembered %v", client, at, w.o.within(c), p.Within, left)
	case begun != want && w.roomy:
		return fmt.Errorf("client %d at %v: a ban has begun: %t, want %t", client, at, begun, want)
	case !begun && want: // it had to make room meanwhile, and some of its denials are forgotten
		*c = was
		if c.denials = append(slices.Clone(was.denials), at); running {
			return fmt.Errorf("client %d at %v: banned by nobody", client, at)
		}
	case begun && w.now+b.Left != c.end || begun && b.Times != c.times && w.roomy:
		return fmt.Errorf("client %d at %v: banned until %v, time %d, want until %v, time %d", client, w.now, w.now+b.Left, b.Times, c.end, c.times)
	}
	return nil
}

// check compares all bans.
func (w *world) check() error {
	running := 0
	for i, d := range w.all {
		c := w.o.of(d)
		end, ok := w.t.Banned(d, w.now)
		if ok != (c.end > w.now) || ok && end != c.end {
			return fmt.Errorf("client %d at %v: banned %t until %v, want until %v", i, w.now, ok, end, c.end)
		}
		if ok {
			running++
		}
	}
	for b := range w.t.All(w.now) {
		c, i := w.o.of(b.Digest), slices.Index(w.all, b.Digest)
		if running--; i < 0 || w.now+b.Left != c.end || b.Name != string([]byte{byte(i)}) {
			return fmt.Errorf("listed: %+v, want client %d until %v", b, i, c.end)
		}
	}
	if n := w.t.Stats(w.now).Running; running != 0 || w.t.Quiet(w.now) && n > 0 {
		return fmt.Errorf("%d bans are not listed, %d counted", running, n)
	}
	return nil
}

// step takes one of everything that can happen from bytes.
func (w *world) step(kind, who, when byte) error {
	client := int(who) % len(w.all)
	d, p := w.all[client], &w.o.p
	switch {
	case kind < 200: // most are denials, some of them overtaken
		at := w.now
		if kind >= 180 {
			at -= min(at, time.Duration(when)*p.Within/256)
		} else {
			at += time.Duration(when) * p.Within / 2048
		}
		return w.deny(client, at)
	case kind < 220:
		w.now += time.Duration(when) * p.Within / 16
	case kind < 235: // as long as bans are remembered
		w.now += time.Duration(when) * p.For / 4
	case kind < 240:
		w.t.Sweep(p, w.now, int(when)%8, 8)
	case kind < 246:
		left := (time.Duration(when) + 1) * p.For / 32
		if runs := w.t.Impose(p, d, w.now, left, int(when), []byte{byte(client)}); runs > 0 {
			w.o.impose(d, w.now, left, int(when))
			if want := w.o.of(d).end - w.now; runs != want {
				return fmt.Errorf("client %d: banned for %v, want %v", client, runs, want)
			}
		} else if w.roomy {
			return fmt.Errorf("client %d: no room", client)
		}
	default:
		lift, should := w.t.Lift, w.o.lift
		if kind >= 251 {
			lift, should = w.t.LiftImposed, w.o.liftImposed
		}
		b, got := lift(d, w.now)
		if want := should(d, w.now); got != want || got && b.Digest != d {
			return fmt.Errorf("client %d at %v: lifted %+v, %t, want %t", client, w.now, b, got, want)
		}
	}
	return w.check()
}

// policies are of all shapes.
var policies = []Policy{
	mustPolicy(Policy{After: 3, For: time.Second, Max: 10 * time.Second}),
	mustPolicy(Policy{After: 1, For: 30 * time.Second}),
	mustPolicy(Policy{After: 20, Within: time.Second, For: 2 * time.Second, Max: 17 * time.Second}),
	mustPolicy(Policy{After: 8, Within: time.Minute + 7, For: 3 * time.Second, Max: time.Hour}),
	mustPolicy(Policy{After: 17, Within: 10 * time.Minute, For: time.Minute, Max: 24 * time.Hour}),
}

// geometries are tables with room for 12 clients, and such where 40 share the sets.
func geometry(p Policy, roomy bool, r *rand.Rand) *world {
	clients, sets := 12, 16
	if !roomy {
		clients, sets = 40, 1+r.IntN(2)
	}
	var all []sketch.Digest
	for range clients {
		d := randomDigest(r)
		if r.IntN(2) == 0 && len(all) > 0 { // forced: all but one half of the digest is another's
			d = all[r.IntN(len(all))]
			if r.IntN(2) == 0 {
				d.Pos++
			} else {
				d.ID++
			}
		}
		if !slices.Contains(all, d) {
			all = append(all, d)
		}
	}
	return newWorld(p, sets, roomy, all)
}

// TestAgainstOracle makes more than 10^6 random steps.
func TestAgainstOracle(t *testing.T) {
	t.Parallel()
	begun := uint64(0)
	for i := range 400 {
		r := rand.New(rand.NewPCG(uint64(i), 17))
		w := geometry(policies[i%len(policies)], i%2 == 0, r)
		for n := range 3000 {
			if err := w.step(byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())); err != nil {
				t.Fatalf("world %d, step %d: %v", i, n, err)
			}
		}
		begun += w.t.Stats(w.now).Begun
	}
	if t.Logf("%d bans", begun); begun < 10_000 {
		t.Errorf("%d bans", begun)
	}
}

// FuzzTable does the same with the fuzzer's bytes.
func FuzzTable(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0}, uint8(0), true)
	f.Add([]byte{0, 1, 9, 250, 1, 0, 0, 1, 9, 230, 1, 200, 0, 1, 0}, uint8(1), false)
	f.Fuzz(func(t *testing.T, steps []byte, policy uint8, roomy bool) {
		w := geometry(policies[int(policy)%len(policies)], roomy, rand.New(rand.NewPCG(uint64(policy), 1)))
		for n := 0; n+2 < len(steps) && n < 3000; n += 3 {
			if err := w.step(steps[n], steps[n+1], steps[n+2]); err != nil {
				t.Fatalf("step %d: %v", n/3, err)
			}
		}
	})
}

// A ban is due with After denials in a row of slots that lasts no longer than Within, and
// always with those of 15/16 of it.
func TestBounds(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 20_000 {
		p := policies[i%len(policies)]
		tb, d, from := newTable(1, p.Within), randomDigest(r), rand.N(time.Hour)
		due := false
		for k := range p.After { // the whole time, both ends included
			at := from
			if p.After > 1 {
				at += p.Within / slots * (slots - 1) * time.Duration(k) / time.Duration(p.After-1)
			}
			due = tb.Deny(&p, d, at)
			if due != (k == p.After-1) {
				t.Fatalf("denial %d of %d, %v after the first: due %t", k+1, p.After, at-from, due)
			}
		}
		if p.After == 1 {
			continue
		}
		tb = newTable(1, p.Within)
		for range p.After - 1 {
			tb.Deny(&p, d, from)
		}
		if tb.Deny(&p, d, from+p.Within) {
			t.Fatalf("denials %v apart count together", p.Within)
		}
	}
}
