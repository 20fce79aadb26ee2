package fleet

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/judge"
)

// waiterOracle knows what clients who wait were admitted, and may have been charged.
type waiterOracle struct {
	mu             sync.Mutex
	above          *judge.Client // every admitted unit charged when its answer came; guarded by mu
	begun, decided int64         // units asked for, and those of them with an answer; guarded by mu
	admitted       []flight      // guarded by mu
}

func newWaiterOracle() *waiterOracle {
	return &waiterOracle{above: judge.Leaky(fastlimit.Rate{N: uint64(waitRate), Per: time.Second})}
}

// flight is a request that was admitted, at some time between these.
type flight struct {
	first, last time.Duration
	units       int64
}

const (
	unit      = int64(time.Second) // of leaky levels
	waitRate  = int64(40)
	waitBurst = int64(10)
	maxWait   = 200 * time.Millisecond
	callers   = 8                     // of a client that waits
	timeout   = 50 * time.Millisecond // so that r·J, by which a denial may be late, is less than what MaxWait lets in
)

// ask has a client wait for n units, and checks a denial: one request that the table denies
// would have had to wait for longer than MaxWait, behind all that was admitted before and all
// that has been on its way since.
func (o *waiterOracle) ask(t *testing.T, r *fastlimit.Rule, client string, n int64, begin time.Time) (denied bool) {
	o.mu.Lock()
	o.begun += n
	first := time.Since(begin)
	level, decided := o.above.At(first), o.decided
	o.mu.Unlock()
	d := r.Wait(context.Background(), r.BytesKey([]byte(client)), uint64(n)) // 1 or 2
	o.mu.Lock()
	defer o.mu.Unlock()
	last := time.Since(begin)
	o.decided += n
	if d.Allowed || d.Stage == fastlimit.StageFallback { // whose answer came late is charged until that is given back
		o.above.At(last)
		o.above.Admit(uint64(n))
	}
	switch {
	case d.Allowed:
		o.admitted = append(o.admitted, flight{first, last, n})
	case d.Stage != fastlimit.StageFallback:
		// Requests in flight at once can overtake each other by a millisecond.
		least := waitBurst*unit + waitRate*int64(maxWait-time.Millisecond)
		if most := level + (o.begun-decided)*unit; most <= least {
			t.Errorf("P1: %d units of %s denied at stage %v: at most %v before it and on their way, of %v", n, client, d.Stage, float64(most)/float64(unit), float64(least)/float64(unit))
		}
		return true
	}
	return false
}

// check checks P2: in any time what was asked for and admitted in it conforms to the
// bucket, which holds in the store what leaks in J more. The table's own and the first of each
// node are beside it.
func (o *waiterOracle) check(t *testing.T, nodes int) (units int64) {
	t.Helper()
	slices.SortFunc(o.admitted, func(a, b flight) int { return int(a.last - b.last) })
	extra := int64(nodes) // strict, so there is only rounding of times
	for i := range o.admitted {
		units += o.admitted[i].units
		sum := int64(0)
		from := o.admitted[i].first
		for _, f := range o.admitted {
			if f.first < from {
				continue
			}
			sum += f.units
			most := (waitBurst+extra)*unit + waitRate*int64(timeout+f.last-from)
			if sum*unit > most {
				t.Errorf("P2: %d units from %v to %v, want at most %v", sum, from, f.last, float64(most)/float64(unit))
				return units
			}
		}
	}
	return units
}

// Waiting is P1 and P2 with clients that wait, at one, two and three nodes that share a
// store: those who exceed the limit are let in at the rate and denied only if their time
// would be up; who conforms never waits and is never denied, though others take
// places all the time.
func (f Fleet) Waiting(t *testing.T) {
	t.Helper()
	rule := func(name string) fastlimit.RuleConfig {
		return fastlimit.RuleConfig{
			Name: name, Rate: fastlimit.Rate{N: uint64(waitRate), Per: time.Second}, Burst: uint64(waitBurst), MaxWait: maxWait, Strict: true, OnFailure: fastlimit.FailClosed,
		}
	}
	sizes(func(nodes int) func() {
		all := f.nodes(t, nodes, timeout, fastlimit.Config{
			Rules: []fastlimit.RuleConfig{rule("flood"), rule("good")}, Wait: fastlimit.WaitLimits{PerKey: 1000},
		})
		return func() { f.waiting(t, all) }
	})
}

func (f Fleet) waiting(t *testing.T, nodes []*fastlimit.Limiter) {
	t.Helper()
	var group sync.WaitGroup
	var mu sync.Mutex
	denied, decided := 0, int64(0) // guarded by mu
	var asked atomic.Int64         // rounds of who conforms
	begin, end, ended := time.Now(), testkit.Deadline(t), make(chan struct{})
	floods := map[string]*waiterOracle{"x": newWaiterOracle(), "y": newWaiterOracle()}
	for client, o := range floods {
		for caller := range callers {
			rng := rand.New(rand.NewPCG(uint64(client[0]), uint64(caller)))
			group.Go(func() {
				for {
					no := o.ask(t, nodes[rng.IntN(len(nodes))].Rules()[0], client, 1+rng.Int64N(2), begin)
					mu.Lock()
					decided++
					if no {
						denied++
					}
					enough := time.Since(begin) > atLeast && decided >= f.Decisions && (denied > 0 && waitStats(nodes).Admitted >= 20 && asked.Load() >= 10 || time.Now().After(end))
					mu.Unlock()
					if enough {
						return
					}
					time.Sleep(time.Duration(rng.Int64N(int64(4 * time.Millisecond))))
				}
			})
		}
	}
	go func() { group.Wait(); close(ended) }()
	good := [...]*waiterOracle{newWaiterOracle(), newWaiterOracle()}
	for done := false; !done; asked.Add(1) { // half of the rate, at any node
		for i, o := range good { // among the floods, and in a rule of its own
			if o.ask(t, nodes[int(asked.Load())%len(nodes)].Rules()[i], "good", 1, begin) {
				t.Error("P1: one that conforms was denied")
			}
		}
		select {
		case <-ended:
			done = true
		case <-time.After(2 * time.Second / time.Duration(waitRate)):
		}
	}
	for _, lim := range nodes {
		if s := lim.Rules()[1].Stats().Waits; s != (fastlimit.WaitStats{}) {
			t.Errorf("P1: one that conforms had to wait: %+v", s)
		}
	}
	waited := waitStats(nodes)
	for client, o := range floods {
		units := o.check(t, len(nodes))
		t.Logf("%d nodes: %d units of %s admitted in %v", len(nodes), units, client, time.Since(begin).Round(time.Millisecond))
	}
	t.Logf("%d nodes: %d decisions of floods, %d denials; %d waited and were admitted, %d were denied; %d of who conforms", len(nodes), decided, denied, waited.Admitted, waited.Denied, asked.Load())
	if denied == 0 || waited.Admitted < 20 || asked.Load() < 10 {
		t.Errorf("%d nodes: nothing was tested", len(nodes))
	}
}

// waitStats adds up what waited for the rule that is flooded.
func waitStats(nodes []*fastlimit.Limiter) (sum fastlimit.WaitStats) {
	for _, lim := range nodes {
		s := lim.Rules()[0].Stats().Waits
		sum.Admitted, sum.Denied = sum.Admitted+s.Admitted, sum.Denied+s.Denied
	}
	return sum
}
