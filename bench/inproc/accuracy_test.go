package inproc

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bench/oracle"
	"github.com/fastlimit/fastlimit/bench/workload"
)

// TestGoldenFacts are exact counts of fastlimit for one seed. They change only
// when a decision changes: when that is meant, copy the new ones.
func TestGoldenFacts(t *testing.T) { // not parallel: see GOMAXPROCS
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // the memory follows the cores
	if raceEnabled {
		return // a million decisions, one after the other
	}
	golden := map[string]struct{ requests, denied, escalated int64 }{
		"zipf-0.8":     {200596, 5212, 4396},
		"zipf-1.1":     {200007, 65303, 17323},
		"distinct":     {259979, 0, 0},
		"hot-key":      {661480, 600601, 799},
		"botnet-2022":  {247765, 182387, 4786},
		"botnet-2023":  {247765, 176087, 10334},
		"swarm-2022":   {260655, 0, 0},
		"pulse-wave":   {226499, 49987, 99622},
		"rotate-v6":    {258537, 168869, 26006},
		"flash-crowd":  {200677, 0, 0},
		"slow-drip":    {199500, 0, 928},
		"low-and-slow": {260656, 0, 0},
	}
	results, err := Accuracy(t.Context(), AccuracyOptions{
		Options: Options{Contenders: []Contender{Fastlimit()}, Seed: 1}, Requests: 200_000,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != len(golden) {
		t.Errorf("%d workloads, %d of them known", len(results), len(golden))
	}
	for _, r := range results {
		want := golden[r.Workload]
		n := float64(r.Requests)
		got := want
		got.requests, got.denied, got.escalated = r.Requests, int64(*r.Denied*n+0.5), int64(*r.Escalated*n+0.5)
		// Other processors fuse multiplications and draw other clients.
		if got != want && runtime.GOARCH == "amd64" {
			t.Errorf("%q: {%d, %d, %d}, // want %v", r.Workload, got.requests, got.denied, got.escalated, want)
		}
		if *r.FalseDenials != 0 || *r.Excess > 101 { // P1, and P2: θB + 1
			t.Errorf("%s: %d false denials, excess %v", r.Workload, *r.FalseDenials, *r.Excess)
		}
		if *r.Denied > *r.DeniedExactly {
			t.Errorf("%s: %v denied, %v by exact buckets", r.Workload, *r.Denied, *r.DeniedExactly)
		}
	}
}

// broken is a limiter that is wrong in a known way.
type broken func(addr netip.Addr, now time.Duration) bool

func (f broken) Allow(addr netip.Addr, now time.Duration) bool { return f(addr, now) }

func contender(name string, l Limiter, err error) Contender {
	return Contender{Name: name, Setup: "test", New: func(oracle.Rule) (Limiter, error) { return l, err }}
}

// losing is a limiter that decides nothing because something is away.
type losing struct{}

func (losing) Allow(netip.Addr, time.Duration) bool { return false }
func (losing) Err() error                           { return errors.New("lost") }

// TestAccuracyShowsMistakes: limiters that deny too much and too little, and
// one that fails, are found out; the exact reference is not.
func TestAccuracyShowsMistakes(t *testing.T) {
	t.Parallel()
	i := 0
	everyTenth := broken(func(netip.Addr, time.Duration) bool { i++; return i%10 > 0 })
	everything := broken(func(netip.Addr, time.Duration) bool { return true })
	w, _ := workload.Find("hot-key")
	var progress []string
	results, err := Accuracy(t.Context(), AccuracyOptions{
		Options: Options{
			Contenders: []Contender{
				contender("every tenth", everyTenth, nil), contender("everything", everything, nil),
				contender("fails", nil, errors.New("no such luck")), Reference(),
				contender("loses its server", losing{}, nil),
			},
			Progress: func(done, total int, what string) { progress = append(progress, what) },
		},
		Workloads: []*workload.Workload{w}, Requests: 1000, Duration: time.Second,
	})
	if err != nil || len(results) != 5 || len(progress) != 6 {
		t.Fatalf("%d results, progress %q, error %v", len(results), progress, err)
	}
	if r := results[0]; *r.FalseDenials == 0 || *r.ConformingDenied == 0 || *r.ConformingDenied >= *r.FalseDenials || *r.Denied < 0.099 || *r.Denied > 0.101 {
		t.Errorf("denying every tenth: %+v", r)
	}
	// 100,000 requests within a second, of which 100 leak and 200 fit.
	if r := results[1]; *r.FalseDenials != 0 || *r.Denied != 0 || *r.Excess < 99_000 || *r.Excess > 100_500 || *r.DeniedExactly < 0.98 {
		t.Errorf("admitting everything: excess %v, exact %v", *r.Excess, *r.DeniedExactly)
	}
	if r := results[2]; r.Error != "no such luck" || r.Denied != nil {
		t.Errorf("failing: %+v", r)
	}
	if r := results[4]; r.Error != "lost" || *r.Denied != 1 {
		t.Errorf("failing in between: %+v", r)
	}
	if r := results[3]; *r.FalseDenials != 0 || *r.Excess > 0.01 || *r.Denied != *r.DeniedExactly {
		t.Errorf("the reference: %+v", r)
	}
}

// realTime is an exact bucket for each client that reads the clock itself, late
// by up to a millisecond now and then.
type realTime struct {
	rule    oracle.Rule
	begin   time.Time
	n       int
	buckets map[netip.Addr]*realBucket
}

type realBucket struct {
	level float64
	last  time.Duration
}

func (l *realTime) Allow(addr netip.Addr, _ time.Duration) bool {
	if l.n++; l.n%7 == 0 {
		time.Sleep(time.Millisecond)
	}
	now := time.Since(l.begin)
	b := l.buckets[addr]
	if b == nil {
		b = new(realBucket)
		l.buckets[addr] = b
	}
	b.level = max(0, b.level-(now-b.last).Seconds()*l.rule.Rate.PerSecond())
	b.last = now
	if b.level+1 > float64(l.rule.Burst) {
		return false
	}
	b.level++
	return true
}

// TestRealTime: what a limiter does between two readings of the clock is not
// held against it: an exact bucket is found exact, however late it is, also
// beside others that share its stream.
func TestRealTime(t *testing.T) {
	t.Parallel()
	hot, err := workload.Find("hot-key")
	if err != nil {
		t.Fatal(err)
	}
	exact := func(r oracle.Rule) (Limiter, error) {
		return &realTime{rule: r, begin: time.Now(), buckets: map[netip.Addr]*realBucket{}}, nil
	}
	var groups []string
	results, err := Accuracy(t.Context(), AccuracyOptions{
		Options: Options{
			Rule: oracle.Rule{Rate: fastlimit.Rate{N: 1, Per: time.Second}, Burst: 5},
			Contenders: []Contender{
				{Name: "a", OwnClock: true, New: exact},
				{Name: "b", OwnClock: true, Remote: true, New: exact},
				{Name: "c", OwnClock: true, New: func(oracle.Rule) (Limiter, error) { return nil, errors.New("no such luck") }},
				Reference(),
				{Name: "d", OwnClock: true, New: exact},
			},
			Progress: func(_, _ int, what string) { groups = append(groups, what) },
		},
		Workloads: []*workload.Workload{hot}, Duration: 300 * time.Millisecond,
	})
	if err != nil || len(results) != 5 {
		t.Fatalf("%d results, error %v", len(results), err)
	}
	if got := strings.Join(groups, "; "); got != "hot-key: b; hot-key: x/time map; hot-key: a, c, d; done" {
		t.Errorf("run as %s", got)
	}
	for i, r := range results {
		if want := []string{"a", "b", "c", "x/time map", "d"}[i]; r.Limiter != want {
			t.Errorf("result %d is of %s, want %s", i, r.Limiter, want)
		}
		if r.Limiter == "c" {
			if r.Error != "no such luck" || r.Denied != nil {
				t.Errorf("failing: %+v", r)
			}
		} else if r.Error != "" {
			t.Errorf("%s: %s", r.Limiter, r.Error)
		} else if *r.FalseDenials != 0 || *r.Excess > 0.01 || r.Requests == 0 || r.Requests > 6 && *r.Denied == 0 { // a slow machine sends few
			t.Errorf("%s: %d false denials of %d requests, excess %v, %v denied", r.Limiter, *r.FalseDenials, r.Requests, *r.Excess, *r.Denied)
		}
	}
}

// TestAccuracyCancelled: what is measured is kept.
func TestAccuracyCancelled(t *testing.T) {
	t.Parallel()
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	never := broken(func(netip.Addr, time.Duration) bool { cancel(stop); return true })
	w, _ := workload.Find("zipf-1.1")
	results, err := Accuracy(ctx, AccuracyOptions{
		Options:   Options{Contenders: []Contender{Reference(), contender("stops", never, nil), Reference()}},
		Workloads: []*workload.Workload{w}, Requests: 20_000,
	})
	if !errors.Is(err, stop) || len(results) != 1 || !strings.HasPrefix(results[0].Limiter, "x/time") {
		t.Errorf("%d results, error %v", len(results), err)
	}
}

// TestObserve: a limiter that reads the clock itself may have decided as late as
// the second reading, so that it may deny at that time; one that is told the time
// may not. 1/s, burst 1.
func TestObserve(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		elapsed func() time.Duration
		want    int64
	}{{nil, 1}, {func() time.Duration { return time.Second }, 0}} {
		o, err := oracle.New(oracle.Rule{Rate: fastlimit.Rate{N: 1, Per: time.Second}, Burst: 1}, 1, 100)
		if err != nil {
			t.Fatal(err)
		}
		first := true
		l := broken(func(netip.Addr, time.Duration) (allowed bool) { allowed, first = first, false; return allowed })
		observe(o, l, 0, netip.Addr{}, 0, c.elapsed)
		observe(o, l, 0, netip.Addr{}, time.Second, c.elapsed)
		if got := o.Verdict().FalseDenials; got != c.want {
			t.Errorf("%d false denials, want %d", got, c.want)
		}
	}
}
