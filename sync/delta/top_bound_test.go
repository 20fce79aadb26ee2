package delta

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/sketch"
)

// asked is the truth: what every client asked of every node, tick by tick.
type asked struct {
	at    time.Duration
	units map[string]uint64 // by key
}

// since is what a client asked for after a time.
func since(all []asked, key string, from time.Duration) (n uint64) {
	for _, a := range all {
		if a.at > from {
			n += a.units[key]
		}
	}
	return n
}

func count(all []map[string]uint64, client, units uint64) {
	for _, m := range all {
		m[fmt.Sprint("c", client)] += units
	}
}

// deny is a denial of n units by a table of buckets.
func (n *testNode) deny(client, units uint64) {
	n.serial++
	if n.rule.talkers.Drawn(n.serial, units) {
		n.rule.talkers.Shed(testDigest(client), units)
	}
}

// TestTopHolds: whatever is sent to whom, Rate is never further from the truth
// than Error, for those who are told and, where all are told who have a slot, for
// those who are not. Tables are crowded, packets have no room, floods are noted by
// chance, slots change their clients, epochs end.
func TestTopHolds(t *testing.T) {
	t.Parallel()
	seeds := uint64(12)
	if testing.Short() {
		seeds = 4
	}
	var checked, sampled, tight int
	for seed := range seeds {
		rng := newRand(seed)
		interval := []time.Duration{tick, tick, time.Second}[seed%3]
		change := func(c *Config) {
			if seed%4 == 1 {
				small(c)
			}
		}
		slots, clients := 16<<rng.IntN(4), uint64(8+rng.IntN(300))
		a, b := newTestNode(t, "a", slots, change), newTestNode(t, "b", slots, change)
		a.rule.epoch, b.rule.epoch = 10*time.Second, time.Duration(10+rng.IntN(20))*time.Second
		b.knows(a) // and is told before its own tick: nothing is on its way
		zipf := rand.NewZipf(rng, 1.3, 2, clients-1)
		floods := 1 << rng.IntN(18) // denials a tick
		var truth [2][]asked
		for i := range 450 {
			now := time.Duration(i+1) * interval
			if i%100 == 60 {
				zipf = rand.NewZipf(rng, 1.1+rng.Float64(), 2, clients-1) // others
				floods = 1 << rng.IntN(18)
			}
			units := [2]map[string]uint64{{}, {}} // of a, of both
			for i, n := range []*testNode{a, b} {
				for range rng.IntN(200) {
					c, u := zipf.Uint64(), 1+rng.Uint64N(3)
					n.rule.hit(c, u)
					count(units[i:], c, u)
				}
				if i%7 > 4 {
					continue // floods come in pulses
				}
				for range rng.IntN(floods) / 16 {
					c, u := zipf.Uint64(), uint64(1)
					if rng.IntN(100) == 0 {
						u = 1 + rng.Uint64N(500)
					}
					n.deny(c, u)
					count(units[i:], c, u)
				}
			}
			truth[0], truth[1] = append(truth[0], asked{now, units[0]}), append(truth[1], asked{now, units[1]})
			b.mustReceive(t, a.tick(now), now)
			b.tick(now)
			if i < 20 || i%7 > 0 && i%10 > 0 {
				continue
			}
			for i, n := range []*testNode{a, b} {
				truth := truth[i]
				window := max(now-n.marked[0], time.Second)
				told := map[string]bool{}
				list := n.Top(1000, now)
				d := n.doubtLocked(0)
				for _, c := range list {
					told[c.Key] = true
					checked++
					if d.grain > 1 {
						sampled++
					} else if c.Error == 0 {
						tight++
					}
					want := float64(since(truth, c.Key, n.marked[0])) / window.Seconds()
					if math.Abs(want-c.Rate) > c.Error+1e-6 {
						t.Fatalf("seed %d, at %v at %s: %s asks for %.1f/s, told are %.1f ± %.1f; %+v", seed, now, n.config.Node, c.Key, want, c.Rate, c.Error, d)
					}
				}
				for c := range clients {
					key := fmt.Sprint("c", c)
					units := since(truth, key, n.marked[0])
					if most := d.of(0); !told[key] && float64(units) > most {
						t.Fatalf("seed %d, at %v at %s: %s asked for %d and is not told, at most %.1f may be missing; %+v", seed, now, n.config.Node, key, units, most, d)
					}
				}
			}
		}
	}
	t.Logf("%d rates checked, %d of sampled denials, %d exact", checked, sampled, tight)
	if checked < 10_000 || sampled < checked/10 || tight < checked/1000 {
		t.Errorf("%d rates checked, %d of sampled denials, %d exact: that is little", checked, sampled, tight)
	}
}

// TestTopOfTheDenied: a real rule of 100/s that is asked for 300/s tells 300/s,
// and knows it exactly; of a flood it knows within some percent.
func TestTopOfTheDenied(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rate, most float64 // of one client, of nine others each
		percent    float64 // that Error may be
	}{{300, 0, 0.5}, {300, 250, 0.5}, {20_000, 0, 7}, {20_000, 5000, 15}} {
		var clock fastlimit.ManualClock
		lim, err := fastlimit.New(fastlimit.Config{Clock: &clock, TopTalkers: 1024, Rules: []fastlimit.RuleConfig{
			{Name: "per-ip", Rate: fastlimit.Rate{N: 100, Per: time.Second}, Burst: 200},
		}})
		if err != nil {
			t.Fatal(err)
		}
		r, _ := lim.Rule("per-ip")
		s, err := New(Config{Cluster: "test", Node: "a", Rules: []Rule{r}})
		if err != nil {
			t.Fatal(err)
		}
		now := time.Duration(0)
		ask := func(client int, n float64) {
			clock.Set(now)
			for range int(n) {
				r.Take(t.Context(), r.AddrKey(addrOf(client)), 1)
			}
		}
		for range 300 {
			now += tick
			ask(0, tt.rate/10)
			for c := range 9 {
				ask(1+c, tt.most/10)
			}
			s.Tick(now)
		}
		c := s.Top(1, now)[0]
		if math.Abs(c.Rate-tt.rate) > c.Error+0.3 || c.Error > tt.rate*tt.percent/100 {
			t.Errorf("%v/s beside 9 of %v/s are told as %.1f ± %.1f", tt.rate, tt.most, c.Rate, c.Error)
		}
	}
}

// TestNobodyChoosesWhatIsNoted: one denial in 64 is of the victim, always at the
// same place among the others. That has it noted neither always nor never.
func TestNobodyChoosesWhatIsNoted(t *testing.T) {
	t.Parallel()
	h, err := sketch.NewTopTalkers(4)
	if err != nil {
		t.Fatal(err)
	}
	attacker, victim := sketch.Digest{ID: 1}, sketch.Digest{ID: 2}
	h.Insert(attacker, 2, nil)
	h.Insert(victim, 2, nil)
	serial := uint64(0)
	shed := func(d sketch.Digest) {
		serial++
		if h.Drawn(serial, 1) {
			h.Shed(d, 1)
		}
	}
	var s sketch.Slot
	victims := func() uint64 { h.Read(h.Find(victim), &s); return s.Shed }
	for h.Grain() < 64 { // a flood
		shed(attacker)
	}
	before, denied := victims(), uint64(0)
	for ; h.Grain() == 64; denied++ {
		for range 63 {
			shed(attacker)
		}
		shed(victim)
	}
	d, got := doubt{grain: 128}, victims()-before
	if denied < 3000 || math.Abs(float64(got)-float64(denied)) > d.of(got) {
		t.Errorf("%d denials are told as %d ± %.0f", denied, got, d.of(got))
	}
}
