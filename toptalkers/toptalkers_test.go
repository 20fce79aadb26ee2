package toptalkers

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/ban"
	"github.com/fastlimit/fastlimit/sketch"
)

// testRule has a table and an epoch.
type testRule struct {
	talkers *sketch.TopTalkers
	epoch   time.Duration
	unit    uint64
}

func (r *testRule) TopTalkers() sketch.RuleTalkers {
	return sketch.RuleTalkers{Table: r.talkers, Rule: "per-ip", Unit: r.unit, Epoch: r.epoch, Text: func(b []byte) string { return string(b) }}
}

// hit counts n units of a client, as a limiter does.
func (r *testRule) hit(client, n uint64) {
	d := testDigest(client)
	if !r.talkers.Add(d, n) {
		r.talkers.Insert(d, n, fmt.Appendf(nil, "c%d", client))
	}
}

// testDigest spreads clients over the sets.
func testDigest(client uint64) sketch.Digest {
	var h sketch.Hasher
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], client)
	return h.Bytes(b[:])
}

func newRanking(t *testing.T, slots int) (*Ranking, *testRule) {
	t.Helper()
	h, err := sketch.NewTopTalkers(slots)
	if err != nil {
		t.Fatal(err)
	}
	r := &testRule{talkers: h, epoch: time.Hour}
	return New("this", []Rule{r}), r
}

// A rate is of the last 5 to 10 s, denied units included; what came before the
// first Tick is in none. Epochs end by Tick alone: no cluster, no server.
func TestTop(t *testing.T) {
	t.Parallel()
	top, r := newRanking(t, 64)
	r.epoch = 10 * time.Second
	r.hit(0, 1_000_000)
	if all := top.Top(1, 20*time.Second); len(all) != 1 || all[0].Rate != 50_000 {
		t.Errorf("before the first Tick: %+v, want the mean since time 0", all)
	}
	weight := func() uint64 {
		var s sketch.Slot
		r.talkers.Read(r.talkers.Find(testDigest(0)), &s)
		return s.Weight
	}
	now := 20 * time.Second
	top.Tick(now)
	if all := top.Top(1, now); len(all) != 0 {
		t.Errorf("after the first Tick: %+v, want nobody", all)
	}
	before, ended := weight(), 0
	for range 60 {
		now += time.Second
		r.hit(0, 100)
		r.talkers.Shed(testDigest(0), 200)
		r.hit(1, 50)
		top.Tick(now)
		if w := weight(); w < before {
			ended++
		}
		before = weight()
	}
	if ended != 6 {
		t.Errorf("%d epochs of 10 s ended in 60 s, want 6", ended)
	}
	all := top.Top(5, now)
	if len(all) != 2 || all[0].Key != "c0" || all[0].Rate != 300 || all[0].Error != 0 || all[1].Key != "c1" || all[1].Rate != 50 ||
		all[0].Rule != "per-ip" || len(all[0].Nodes) != 1 || all[0].Nodes[0] != "this" {
		t.Errorf("%+v, want c0 with 300/s and c1 with 50/s", all)
	}
	if all := top.Top(1, now); len(all) != 1 || all[0].Key != "c0" {
		t.Errorf("the first: %+v", all)
	}
	for range 30 {
		now += time.Second
		top.Tick(now)
	}
	if all := top.Top(5, now); len(all) != 0 {
		t.Errorf("after 30 s of silence: %+v", all)
	}
	if r.talkers.Find(testDigest(0)) >= 0 {
		t.Error("a client has a slot after two silent epochs")
	}
}

// Rates and errors are in units, also of a rule that counts in thousandths, and the order
// among rules is by units.
func TestTopOfThousandths(t *testing.T) {
	t.Parallel()
	whole, parts := &testRule{epoch: time.Hour}, &testRule{epoch: time.Hour, unit: 1000}
	for _, r := range []*testRule{whole, parts} {
		var err error
		if r.talkers, err = sketch.NewTopTalkers(64); err != nil {
			t.Fatal(err)
		}
	}
	top := New("this", []Rule{whole, parts})
	whole.hit(1, 30)
	parts.hit(2, 20_500)
	parts.hit(3, 40_500)
	all := top.Top(3, 10*time.Second)
	if len(all) != 3 || all[0].Key != "c3" || all[0].Rate != 4.05 || all[1].Key != "c1" || all[1].Rate != 3 || all[2].Key != "c2" || all[2].Rate != 2.05 || all[2].Error != 0 {
		t.Errorf("%+v, want c3 with 4.05/s, c1 with 3/s, c2 with 2.05/s", all)
	}
}

// Rules without a table are left out, and a Ranking of none has nobody.
func TestNoTables(t *testing.T) {
	t.Parallel()
	top := New("this", []Rule{&testRule{}})
	top.Tick(0)
	if all := top.Top(3, time.Second); top.Rules() != 0 || all == nil || len(all) != 0 {
		t.Errorf("%d rules, %+v", top.Rules(), all)
	}
	var zero Ranking
	zero.Tick(0)
	if all := zero.Top(3, time.Second); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

// What the node's own table misses is in the error, as what the others' do.
func TestErrorHasTheOwnTable(t *testing.T) {
	t.Parallel()
	top, r := newRanking(t, 4)
	top.Tick(0)
	for c := range uint64(4) {
		r.hit(c, 100)
	}
	r.hit(9, 60) // finds no slot
	top.Tick(2 * time.Second)
	if all := top.Top(1, 2*time.Second); len(all) != 1 || all[0].Rate != 50 || all[0].Error != 30 {
		t.Errorf("%+v, want 50 ± 30", all)
	}
}

// Marks of a slot's client say nothing of the next one.
func TestRateOfANewClient(t *testing.T) {
	t.Parallel()
	top, r := newRanking(t, 1)
	for c := range uint64(4) {
		r.hit(c, 1000+c)
	}
	for now := range time.Duration(11) {
		top.Tick(now * time.Second)
	}
	r.talkers.Turn()
	r.hit(9, 900) // takes the slot of c0, of which 1000 units are marked
	if all := top.Top(1, 10*time.Second); len(all) != 1 || all[0].Key != "c9" || all[0].Rate != 180 {
		t.Errorf("%+v, want c9 with 180/s", all)
	}
}

// A slot is not given up for silent while what its client did is in the window.
func TestSlotsOutliveTheWindow(t *testing.T) {
	t.Parallel()
	top, r := newRanking(t, 4)
	r.epoch = 10 * time.Second
	top.Tick(0)
	top.Tick(9900 * time.Millisecond)
	r.hit(1, 505)
	top.Tick(10 * time.Second) // an epoch begins
	top.Tick(20 * time.Second)
	if all := top.Top(1, 20*time.Second); len(all) != 1 || all[0].Rate != 50 {
		t.Errorf("%+v, want 50/s", all)
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
		top := New("this", lim.Rules())
		now := time.Duration(0)
		ask := func(client int, n float64) {
			clock.Set(now)
			for range int(n) {
				r.Take(t.Context(), r.AddrKey(netip.AddrFrom4([4]byte{10, 0, 0, byte(client)})), 1)
			}
		}
		for range 300 {
			now += 100 * time.Millisecond
			ask(0, tt.rate/10)
			for c := range 9 {
				ask(1+c, tt.most/10)
			}
			top.Tick(now)
		}
		c := top.Top(1, now)[0]
		if math.Abs(c.Rate-tt.rate) > c.Error+0.3 || c.Error > tt.rate*tt.percent/100 {
			t.Errorf("%v/s beside 9 of %v/s are told as %.1f ± %.1f", tt.rate, tt.most, c.Rate, c.Error)
		}
		if denied := tt.rate - 100; math.Abs(c.Denied-denied) > c.Error+0.3 {
			t.Errorf("of %v/s %v are denied, and told as %.1f ± %.1f", tt.rate, denied, c.Denied, c.Error)
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
	d, got := Doubt{Grain: 128}, victims()-before
	if denied < 3000 || math.Abs(float64(got)-float64(denied)) > d.Of(got) {
		t.Errorf("%d denials are told as %d ± %.0f", denied, got, d.Of(got))
	}
}

// TestTopOfTheBanned: a client that is banned is only denied. It stays first among a crowd
// that the table is too small for, and is told with what it sends.
func TestTopOfTheBanned(t *testing.T) {
	t.Parallel()
	var clock fastlimit.ManualClock
	lim, err := fastlimit.New(fastlimit.Config{Clock: &clock, TopTalkers: 64, Rules: []fastlimit.RuleConfig{{
		Name: "per-ip", Rate: fastlimit.Rate{N: 10, Per: time.Second},
		Ban: ban.Policy{After: 50, Within: 10 * time.Second, For: 10 * time.Minute},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	r, _ := lim.Rule("per-ip")
	top, now := New("this", lim.Rules()), time.Duration(0)
	crowd := uint32(0)
	for second := range 90 {
		for range 10 {
			now += 100 * time.Millisecond
			clock.Set(now)
			for range 100 {
				r.Allow(r.AddrKey(netip.AddrFrom4([4]byte{192, 0, 2, 7})))
				crowd++
				for range 1 + crowd%3 {
					r.Allow(r.AddrKey(netip.AddrFrom4([4]byte{10, 0, byte(crowd % 600 >> 8), byte(crowd % 600)})))
				}
			}
		}
		top.Tick(now)
		if second < 20 || second%7 != 0 {
			continue
		}
		if c := top.Top(1, now)[0]; c.Key != "192.0.2.7" || math.Abs(c.Rate-1000) > c.Error+1 || c.Error > 300 || math.Abs(c.Denied-1000) > c.Error+1 {
			t.Errorf("second %d: %+v, want 192.0.2.7 with 1000/s, all of it denied", second, c)
		}
	}
}
