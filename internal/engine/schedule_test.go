package engine

import (
	"cmp"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/limit"
)

// The worlds. "three nodes, in time" has every order of answer, hang-up, reset,
// refund and floor for three nodes and four requests; the others have faults.
var storeWorlds = []storeWorld{
	{name: "one node hangs up", nodes: 1, burst: 2, asks: asks(0, 0, 0), hangUps: 2, resets: 1, refunds: 1},
	{name: "one node, late", nodes: 1, burst: 2, asks: asks(0, 0, 0), hangUps: 1, failures: 1, halves: 1, drains: 1, steps: 9},
	{name: "one node, hang-up and outage", nodes: 1, burst: 2, asks: asks(0, 0, 0, 0), hangUps: 1, outages: 1, steps: 13},
	{name: "one node conforms", nodes: 1, burst: 2, asks: asks(0, 0, 0, 0), patient: true, failures: 1, halves: 2, drains: 2, steps: 7},
	{name: "two nodes, refund and reset", nodes: 2, burst: 2, asks: asks(0, 1, 0), hangUps: 1, resets: 1, refunds: 1, steps: 9},
	{name: "two nodes, hang-up and reset", nodes: 2, burst: 1, asks: asks(0, 1, 0), hangUps: 1, resets: 1, refunds: 1, steps: 9},
	{name: "two nodes, floor and refund", nodes: 2, burst: 3, asks: asks(0, 1, 1, 0), refunds: 1, doubt: true, patient: true},
	{name: "two nodes, floor and reset", nodes: 2, burst: 2, asks: asks(1, 1, 0), resets: 1, doubt: true, patient: true},
	{name: "two nodes, outage and reset", nodes: 2, burst: 2, asks: asks(0, 1, 0, 1), outages: 2, resets: 1, patient: true, drains: 1, steps: 7},
	{name: "two nodes, forgotten", nodes: 2, burst: 2, asks: asks(0, 1, 0, 1), losses: 1, patient: true, drains: 1, refunds: 1, steps: 9},
	{name: "three nodes, in time", nodes: 3, burst: 3, asks: asks(0, 1, 2, 0), hangUps: 1, resets: 1, refunds: 1, doubt: true, steps: 6, samples: 2000},
	{name: "three nodes hang up", nodes: 3, burst: 2, asks: asks(0, 1, 2, 0), hangUps: 2, refunds: 1, steps: 6, samples: 2000},
	{name: "three nodes, outage", nodes: 3, burst: 3, asks: asks(0, 1, 2, 0), outages: 2, resets: 1, refunds: 1, drains: 1, patient: true, steps: 6, samples: 2000},
	{name: "three nodes, all at once", nodes: 3, burst: 3, asks: asks(0, 1, 2, 0), hangUps: 1, failures: 1, halves: 2, drains: 1, resets: 1, refunds: 1, outages: 2, losses: 1, steps: 4, samples: 4000},
	{name: "one node, other costs", nodes: 1, burst: 3, asks: []ask{{0, 1}, {0, 2}, {0, 1}, {0, 2}}, hangUps: 1, refunds: 1, halves: 1, steps: 8, samples: 1000},
}

// asks are requests of one unit at those nodes.
func asks(nodes ...int) (list []ask) {
	for _, n := range nodes {
		list = append(list, ask{n, 1})
	}
	return list
}

// TestSchedules plays every schedule of the smaller worlds, every beginning of a
// few steps of the larger ones, and some of their schedules at random; by default one
// step less than the worlds say, and a quarter of the random ones.
// FASTLIMIT_SCHEDULES sets the number of steps, 0 for all schedules of all
// worlds, and multiplies the random ones by 100.
func TestSchedules(t *testing.T) {
	env := os.Getenv("FASTLIMIT_SCHEDULES")
	for _, w := range storeWorlds {
		for _, policy := range []limit.OnFailure{limit.FailLocal, limit.FailOpen, limit.FailClosed} {
			w.policy = policy
			if raceEnabled { // which makes each step ten times as slow
				w.steps, w.samples = 5, w.samples/10
			}
			if w.steps > 0 {
				w.steps -= testkit.Size(1, 0)
			}
			w.samples /= testkit.Size(4, 1)
			if env != "" {
				n, err := strconv.Atoi(env)
				if err != nil {
					t.Fatal(err)
				}
				w.steps, w.samples = n, 100*w.samples
			}
			t.Run(w.name+"/"+policy.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { w.explore(t) })
			})
		}
	}
}

// fleet is limiters around one store that the schedule moves.
type fleet struct {
	*storeWorld
	rules  []*Rule
	stores []*modelStore
	plays  int
}

func (w *storeWorld) explore(t *testing.T) {
	f := &fleet{storeWorld: w}
	for n := range w.nodes {
		f.stores = append(f.stores, &modelStore{node: n})
		cfg := strictRule("a", 1, time.Second, w.burst)
		cfg.OnFailure = w.policy
		lim, err := New(Config{Rules: []limit.RuleConfig{cfg}, Store: f.stores[n], Memory: limit.MinMemory})
		if err != nil {
			t.Fatal(err)
		}
		f.rules = append(f.rules, lim.rules[0])
	}
	all := 0
	var tree []choice
	for more := true; more; more = next(&tree) {
		p := f.begin()
		all += p.run(w.steps, func(step, of int) int {
			if step == len(tree) {
				tree = append(tree, choice{0, of})
			}
			return tree[step].pick
		})
		p.report(t)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range w.samples {
		p := f.begin()
		p.run(0, func(_, of int) int { return rng.IntN(of) })
		p.report(t)
	}
	t.Logf("%d schedules, %d at random", all, w.samples)
}

// begin prepares a schedule: a client that nobody knows.
func (f *fleet) begin() *play {
	f.plays++
	p := &play{
		storeWorld: f.storeWorld, rules: f.rules, key: strconv.Itoa(f.plays), start: time.Now(), resetBy: -1, resetAt: -1,
		left: [...]int{
			hangUp: f.hangUps, fail: f.failures, half: f.halves, drain: f.drains, reset: f.resets,
			refund: f.refunds, outage: f.outages, lose: f.losses,
		},
	}
	for n := range f.stores {
		f.stores[n].play = p
		until := time.Duration(0)
		if f.doubt {
			until = math.MaxInt64
		}
		f.rules[n].shared.Distrust(until - f.rules[n].buckets.Shape.MaxDrain())
	}
	return p
}

func (p *play) report(t *testing.T) {
	t.Helper()
	if p.wrong != "" {
		t.Fatalf("schedule %s: %s\n%v", p.key, p.wrong, p.done)
	}
}

// choice is one of several events that were possible.
type choice struct{ pick, of int }

// next moves on to the next leaf.
func next(tree *[]choice) bool {
	for n := len(*tree); n > 0; n-- {
		if c := &(*tree)[n-1]; c.pick+1 < c.of {
			c.pick++
			*tree = (*tree)[:n]
			return true
		}
	}
	return false
}

// run plays one schedule to its end, or for so many steps, as choose says. Of
// schedules that differ in the order of independent neighbours only one is
// played to its end; it returns 0 for another.
func (p *play) run(steps int, choose func(step, of int) int) (played int) {
	var before []event // that could have happened instead of the last one
	played = 1
	for step := 0; p.wrong == "" && (steps == 0 || step < steps); step++ {
		all := p.enabled()
		es := slices.DeleteFunc(slices.Clone(all), func(e event) bool {
			return step > 0 && slices.Contains(before, e) && p.swapped(e)
		})
		if len(es) == 0 {
			if len(all) > 0 {
				played = 0
			}
			break
		}
		before = all
		p.do(es[choose(step, len(es))])
	}
	p.finish()
	return played
}

// swapped reports whether e might as well have come before the last event, and is tried there.
func (p *play) swapped(e event) bool {
	last := p.done[len(p.done)-1]
	rank := cmp.Or(cmp.Compare(e.node, last.node), cmp.Compare(e.kind, last.kind), cmp.Compare(e.at, last.at))
	return rank < 0 && independent(e, last)
}
