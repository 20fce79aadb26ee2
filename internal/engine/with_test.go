package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/limit"
)

func mustWith(tb testing.TB, l *Limiter, c Config) *Limiter {
	tb.Helper()
	next, err := l.With(c)
	if err != nil {
		tb.Fatal(err)
	}
	return next
}

// TestWithKeeps goes through every setting: what stays with the old rule's state and what starts over.
func TestWithKeeps(t *testing.T) {
	t.Parallel()
	zero, other := 0.0, 0.7
	for name, tt := range map[string]struct {
		change func(c *Config)
		stays  bool
	}{
		"nothing":        {func(*Config) {}, true},
		"mode":           {func(c *Config) { c.Rules[0].Mode = limit.Shadow }, true},
		"cost":           {func(c *Config) { c.Rules[0].Cost = 2 }, true},
		"on failure":     {func(c *Config) { c.Rules[0].OnFailure = limit.FailOpen }, true},
		"top talkers":    {func(c *Config) { c.TopTalkers = 128 }, true},
		"the same rate":  {func(c *Config) { c.Rules[0].Rate = limit.Rate{N: 5, Per: time.Hour / 2} }, true},
		"its place":      {func(c *Config) { c.Rules[0], c.Rules[1] = c.Rules[1], c.Rules[0] }, true},
		"the other one":  {func(c *Config) { c.Rules[1].Burst = 50 }, true},
		"the same key":   {func(c *Config) { c.Secret = [32]byte{1} }, true},
		"theta":          {func(c *Config) { c.Rules[0].EscalateAt = &other }, true},
		"no sketch":      {func(c *Config) { c.Rules[0].EscalateAt = &zero }, true},
		"strict":         {func(c *Config) { c.Rules[0].Strict = true }, true},
		"name":           {func(c *Config) { c.Rules[0].Name = "new" }, false},
		"key kind":       {func(c *Config) { c.Rules[0].KeyKind = "header" }, false},
		"IPv4 prefix":    {func(c *Config) { c.Rules[0].IPv4Prefix = 24 }, false},
		"IPv6 prefix":    {func(c *Config) { c.Rules[0].IPv6Prefix = 48 }, false},
		"rate":           {func(c *Config) { c.Rules[0].Rate.N = 2 }, true},
		"burst":          {func(c *Config) { c.Rules[0].Burst = 40 }, true},
		"secret":         {func(c *Config) { c.Secret = [32]byte{2} }, false},
		"memory":         {func(c *Config) { c.Memory = 2 * limit.MinMemory }, true},
		"a shared store": {func(c *Config) { c.Store = nowhere{} }, true},
	} {
		config := func() Config {
			a := rule("a", 10, time.Hour, 20) // nothing leaks meanwhile
			a.KeyKind = "ip"
			return Config{Rules: []limit.RuleConfig{a, rule("b", 10, time.Hour, 20)}, Secret: [32]byte{1}, TopTalkers: 64, Memory: 8 << 20}
		}
		old, err := New(config())
		if err != nil {
			t.Fatal(err)
		}
		was := old.rules[0]
		for client := was.AddrKey(netip.MustParseAddr("192.0.2.7")); was.Allow(client); {
		}
		c := config()
		tt.change(&c)
		is, ok := mustWith(t, old, c).Rule("a")
		if !ok {
			is = mustWith(t, old, c).rules[0]
		}
		client := is.AddrKey(netip.MustParseAddr("192.0.2.7"))
		if stays := is.buckets.Table.Lookup(client.digest()) != 0; stays != tt.stays {
			t.Errorf("%s: the bucket of a client that was denied stays: %v, want %v", name, stays, tt.stays)
		}
		if stays := is.Stats().Denied[limit.StageTable] == 1; stays != tt.stays {
			t.Errorf("%s: counted %v denied, want the counters to stay: %v", name, is.Stats().Denied, tt.stays)
		}
		if knows := testkit.Recovered(func() { was.Peek(client, 1) }) == ""; knows != tt.stays {
			t.Errorf("%s: the old rule knows the new one's keys: %v", name, knows)
		}
		if c.Rules[0].Mode == limit.Shadow != !is.enforced || is.config.OnFailure != c.Rules[0].OnFailure && name != "its place" {
			t.Errorf("%s: the new settings did not take effect: %+v", name, is.config)
		}
		if talkers := is.talkers == was.talkers; talkers != (tt.stays && c.TopTalkers == 64) {
			t.Errorf("%s: top talkers stay: %v", name, talkers)
		}
	}
}

// TestWithTakesNoMemory counts the bytes that are taken: rules that stay take
// none, a new one its own.
func TestWithTakesNoMemory(t *testing.T) { // not parallel: it counts all that is allocated
	config := func(names ...string) (c Config) {
		for _, name := range names {
			c.Rules = append(c.Rules, rule(name, 100, time.Second, 200))
		}
		c.TopTalkers, c.Memory = 1024, 256<<20
		return c
	}
	taken := func(f func()) int64 {
		least := int64(math.MaxInt64)
		for range 5 { // what other goroutines of the process allocate only adds
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			f()
			runtime.ReadMemStats(&after)
			least = min(least, int64(after.TotalAlloc-before.TotalAlloc))
		}
		return least
	}
	old, err := New(config("a", "b", "c"))
	if err != nil {
		t.Fatal(err)
	}
	all, one := old.plan.Memory, old.plan.Rules[0].Bytes
	counted := int64(128 << 10) // counters, audits, locks and what else a plan leaves out
	if raceEnabled {
		counted += 4 << 10 // the detector's
	}
	if got := taken(func() { mustWith(t, old, config("a", "b", "c")) }); got > all/100 || got > counted {
		t.Errorf("%d bytes for a limiter of %d whose rules all stay", got, all)
	}
	if got := taken(func() { mustWith(t, old, config("c", "b", "d", "a")) }); got > one+counted || got < one {
		t.Errorf("%d bytes for one new rule of %d", got, one)
	}
}

// A limiter that was replaced is given free with the rules that did not stay.
func TestWithHoldsNoOldLimiter(t *testing.T) {
	t.Parallel()
	freed := make(chan string, 2)
	store := nowhere{}
	old, err := New(Config{Rules: []limit.RuleConfig{rule("a", 100, time.Second, 20), rule("b", 100, time.Second, 20)}, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	old.rules[0].Allow(old.rules[0].BytesKey([]byte("x")))
	runtime.AddCleanup(old, func(name string) { freed <- name }, "the limiter")
	runtime.AddCleanup(old.rules[1], func(name string) { freed <- name }, "the rule")
	next := mustWith(t, old, Config{Rules: []limit.RuleConfig{rule("a", 100, time.Second, 20)}, Store: store})
	if next.rules[0].shared != old.rules[0].shared {
		t.Error("the rule does not go on with its operations in flight")
	}
	old = nil
	for range 2 {
		testkit.Eventually(t, "the limiter before is let go", func() bool {
			runtime.GC()
			select {
			case <-freed:
				return true
			default:
				return false
			}
		})
	}
	runtime.KeepAlive(next)
}

// TestSandwichAcrossChanges is the sandwich over limiters that succeed each other every few thousand
// decisions: with the same settings, with additional rules, so that the filter starts over, and with requests
// that still use the predecessor.
func TestSandwichAcrossChanges(t *testing.T) {
	t.Parallel()
	steps := 1_000_000
	if raceEnabled {
		steps /= 20
	}
	for i, geo := range []geometry{
		{blocks: 1 << 10, sets: 1 << 12, words: 1 << 12, hash: addressHash},
		{blocks: 4, sets: 1 << 12, words: 16, hash: degenerateHash},
	} {
		for _, window := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d blocks, other window %v", geo.blocks, window), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(uint64(i), 77))
				a, b := rule("a", 10, time.Second, 20), rule("b", 100, time.Second, 50)
				w := newWorld(t, rng, 30, geo, a, b)
				var now time.Duration
				for done := 0; done < steps; {
					before := w.lim
					w.change(t, rng, geo, window, a, b)
					p := newPattern(rng, w, len(w.digests))
					for j := range 500 + rng.IntN(3000) {
						done++
						now += p.gap(rng, w)
						next := w.lim
						if j < 50 && rng.IntN(2) == 0 { // it is still in use
							w.lim = before
						}
						err := w.request(p.client(rng), p.cost(rng), now, []int{rng.IntN(2)})
						if w.lim = next; err != nil {
							t.Fatalf("decision %d, %s: %v", done, p.name, err)
						}
					}
					advanceAt(w.lim, now)
				}
				for _, r := range w.lim.rules[:2] {
					if s := r.Stats(); s.Evictions > 0 || s.Denied[limit.StageTable] == 0 || geo.words > 16 && s.Allowed[limit.StageFilter] == 0 {
						t.Errorf("rule %s: %+v: this run shows nothing", r.Name(), s)
					}
				}
			})
		}
	}
}

// change has the limiter be replaced.
func (w *world) change(t *testing.T, rng *rand.Rand, g geometry, window bool, rules ...limit.RuleConfig) {
	t.Helper()
	c := Config{Rules: rules, TopTalkers: 8, Clock: w.lim.manual, Secret: [32]byte(w.lim.secret)}
	if window && rng.IntN(2) == 0 {
		c.Rules = append(c.Rules[:2:2], rule("slow", 1, time.Duration(1+rng.IntN(20))*time.Second, 20))
	}
	plan, err := c.Plan()
	if err != nil {
		t.Fatal(err)
	}
	plan.FilterWords = g.words
	for i := range plan.Rules {
		plan.Rules[i].Blocks, plan.Rules[i].Sets = g.blocks, g.sets
	}
	lim, err := newLimiter(plan, &c, w.lim)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rules {
		if lim.rules[i].counts != w.lim.rules[i].counts {
			t.Fatalf("rule %d begins anew", i)
		}
	}
	w.lim = lim
}

// A filter that starts over admits nobody as first seen for a window: the previous one may have.
func TestFilterForgivesNobodyTwice(t *testing.T) {
	t.Parallel()
	lim := mustNew(t, rule("a", 1, time.Second, 2)) // checked from the second unit on
	r := lim.rules[0]
	key := r.BytesKey([]byte("x"))
	for _, want := range []limit.Stage{limit.StageFilter, limit.StageExact} {
		if d := takeAt(r, key, 1, 0); d.Stage != want {
			t.Fatalf("%+v, want stage %v", d, want)
		}
	}
	next := mustWith(t, lim, Config{Rules: []limit.RuleConfig{r.config, rule("slow", 1, time.Minute, 2)}})
	if next.filter == lim.filter {
		t.Fatal("the filter goes on with another window")
	}
	for _, want := range []limit.Stage{limit.StageExact, limit.StageTable} {
		if d := takeAt(next.rules[0], key, 1, 0); d.Stage != want {
			t.Errorf("after the change: %+v, want stage %v", d, want)
		}
	}
	fresh := next.rules[1].BytesKey([]byte("new"))
	if d := takeAt(next.rules[1], fresh, 1, 0); d.Stage != limit.StageExact {
		t.Errorf("another client: %+v", d)
	}
	later := nextTurn(next, 0) + next.plan.Window/8
	if d := takeAt(next.rules[1], next.rules[1].BytesKey([]byte("newer")), 1, later); d.Stage != limit.StageFilter {
		t.Errorf("a new client a window later: %+v", d)
	}
}

// TestWithInUse decides on both limiters at once, for the race detector; one
// client gets its burst and not more of all of them.
func TestWithInUse(t *testing.T) {
	t.Parallel()
	const burst = 1000
	config := Config{Rules: []limit.RuleConfig{rule("a", 1, 24*time.Hour, burst), rule("b", 1, 24*time.Hour, burst)}, TopTalkers: 64, Clock: new(ManualClock)}
	lim, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	current := lim
	admitted := 0
	var wg sync.WaitGroup
	const workers = 8
	for range workers {
		wg.Go(func() {
			n := 0
			for i := range 3000 {
				mu.Lock()
				l := current
				mu.Unlock()
				runtime.Gosched() // others replace it meanwhile
				charges := make([]Charge, len(l.rules))
				for j, r := range l.rules {
					charges[j] = Charge{r, r.BytesKey([]byte("x")), 1}
				}
				if d, _ := l.TakeAll(context.Background(), charges); d.Allowed {
					n++
				}
				if i%100 == 0 {
					next := mustWith(t, l, config)
					mu.Lock()
					current = next
					mu.Unlock()
					l.Advance()
				}
			}
			mu.Lock()
			admitted += n
			mu.Unlock()
		})
	}
	wg.Wait()
	if most := burst*3/2 + 1 + workers; admitted > most || admitted < burst {
		t.Errorf("%d admitted of one client, want at most %d", admitted, most)
	}
}

// TestWithJoinsFlights: the old and the new limiter have at most one operation
// of a client in flight, together (P4).
func TestWithJoinsFlights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := millisecond(t)
		old := sharedLimiter(t, s, strictRule("a", 1, time.Hour, 2))
		config := Config{Rules: []limit.RuleConfig{old.rules[0].config}, Store: s, Memory: 4 << 20}
		next := mustWith(t, old, config)
		var wg sync.WaitGroup
		for range 3 {
			for _, l := range []*Limiter{old, next} {
				wg.Go(func() { l.rules[0].Allow(l.rules[0].BytesKey([]byte("x"))) })
			}
		}
		wg.Wait()
		if takes := s.takes.Load(); takes > 2 || s.doubled > 0 {
			t.Errorf("%d takes, %d at once, want one after another for all who wait", takes, s.doubled)
		}
		if d := next.rules[0].Take(t.Context(), old.rules[0].BytesKey([]byte("x")), 1); d.Allowed || d.Stage != limit.StageTable {
			t.Errorf("after the burst: %+v", d)
		}

		// Another store is told what the table knows.
		fresh := millisecond(t)
		config.Store = fresh
		moved := mustWith(t, next, config).rules[0]
		time.Sleep(time.Hour) // one unit
		moved.Take(t.Context(), moved.BytesKey([]byte("x")), 1)
		if level, unit := fresh.State(`a:"x"`).Level, moved.buckets.Shape.Unit(); level < unit*19/10 {
			t.Errorf("the new store holds %d ticks, want almost two units of %d", level, unit)
		}
	})
}

// What can only be a mistake is refused.
func TestWithMistakes(t *testing.T) {
	t.Parallel()
	lim := mustNew(t, rule("a", 1, time.Second, 2))
	if _, err := lim.With(Config{}); err == nil || !strings.Contains(err.Error(), "0 rules") {
		t.Errorf("no rules: %v", err)
	}
	other := Config{Rules: []limit.RuleConfig{rule("a", 1, time.Second, 2)}, Clock: new(ManualClock)}
	if _, err := lim.With(other); err == nil || !strings.Contains(err.Error(), "Clock") {
		t.Errorf("another clock: %v", err)
	}
	if got := testkit.Recovered(func() { new(Limiter).With(other) }); !strings.Contains(got, "not made by New") {
		t.Errorf("a zero limiter: %q", got)
	}
	type list struct {
		nowhere
		_ []int // not comparable
	}
	if sameStore(list{}, list{}) || !sameStore(nowhere{}, nowhere{}) || sameStore(nowhere{}, &list{}) {
		t.Error("sameStore")
	}
}

// nowhere is a store that is always away.
type nowhere struct{}

func (nowhere) Runs(bucket.Algorithm) bool { return true }

func (nowhere) Submit(*bucket.Op) error { return bucket.ErrAway }

func (nowhere) Close(context.Context) error { return nil }
