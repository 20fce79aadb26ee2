package engine

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/judge"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// The sandwich: every denial must be explained by the client's own admitted
// requests (P1), and what is admitted must stay within the burst of P2. Both
// are checked at every decision by an exact oracle for each client and rule,
// which never looks away: what clients get beyond P2 where the table had to
// give buckets up is no more, all together, than the units that it counted.

// sandwichScale multiplies the decisions of TestSandwich, of which 1 makes more than
// 3·10^7 and 10 more than 10^8, and of TestSandwichUnderPressure, of which 20 makes 10^8:
// "go test -run Sandwich . -sandwich 20".
var sandwichScale = flag.Float64("sandwich", testkit.Size(0.3, 1), "multiplies the decisions of the sandwich tests")

// world is one limiter under test with an oracle for each client and rule.
type world struct {
	lim     *Limiter
	digests [][]sketch.Digest // [client][rule]
	truth   [][]*judge.Client // [client][rule]
	worst   [][]int64         // [client][rule]: most ever above P2, in the oracle's scale
	excess  []int64           // [rule]: sum of worst
	slack   float64           // units that P2 may exceed by, besides θ·B + 1
	before  []uint64          // [rule]: units that tables of processes before had given up

	bans  [][]*banTruth // [client][rule]
	roomy bool          // no client has to make room for another one's denials

	peers  bool          // whether other nodes tell of hits that nobody sent
	latest time.Duration // of the times brought
}

// line puts a time on the line on which one older than the latest counts as
// the latest.
func (w *world) line(now time.Duration) time.Duration {
	w.latest = max(w.latest, now)
	return w.latest
}

// geometry is the size of a limiter's structures; tests make them absurdly
// small, so that everything collides.
type geometry struct {
	blocks, sets, words int
	bans                int // 0: room for all
	hash                func(r *rand.Rand, client int) sketch.Digest
}

// randomHash is what a keyed digest looks like.
func randomHash(r *rand.Rand, _ int) sketch.Digest {
	return sketch.Digest{Pos: r.Uint64(), ID: r.Uint64()}
}

// degenerateHash sends all clients to the same cells and filter bits; only
// table sets and IDs differ, without which P2 is not promised.
func degenerateHash(_ *rand.Rand, client int) sketch.Digest {
	return sketch.Digest{Pos: uint64(client) * 0x9e3779b1 << 8 & 0xffffff00, ID: uint64(client+1) << 24 & 0xff000000}
}

// addressHash is the digest of an address: position and ID are one.
func addressHash(r *rand.Rand, _ int) sketch.Digest {
	v := r.Uint64()
	return sketch.Digest{Pos: v, ID: v}
}

func newWorld(tb testing.TB, rng *rand.Rand, clients int, g geometry, rules ...limit.RuleConfig) *world {
	tb.Helper()
	plan, err := (&Config{Rules: rules, TopTalkers: 8}).Plan()
	if err != nil {
		tb.Fatal(err)
	}
	plan.FilterWords = g.words
	for i := range plan.Rules {
		plan.Rules[i].Blocks, plan.Rules[i].Sets = g.blocks, g.sets
		plan.Rules[i].Bans = cmp.Or(g.bans, 16*clients)
	}
	lim, err := newLimiter(plan, &Config{Secret: sketch.Secret{1}, Clock: new(ManualClock)}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	w := &world{lim: lim, excess: make([]int64, len(lim.rules)), before: make([]uint64, len(lim.rules)), roomy: g.bans == 0}
	for c := range clients {
		var ds []sketch.Digest
		var os []*judge.Client
		var bans []*banTruth
		for _, r := range lim.rules {
			ds = append(ds, g.hash(rng, c))
			os = append(os, judge.Of(r.config))
			bans = append(bans, newBanTruth(r.config.Ban))
		}
		w.digests, w.truth = append(w.digests, ds), append(w.truth, os)
		w.bans = append(w.bans, bans)
		w.worst = append(w.worst, make([]int64, len(lim.rules)))
	}
	return w
}

// rawKey is a key of r with that digest.
func rawKey(r *Rule, d sketch.Digest) Key { return Key{id: d.ID, x: d.Pos, y: r.tag} }

// request makes client c send one request of n units to the given rules and
// checks the verdict.
func (w *world) request(c int, n uint64, now time.Duration, rules []int) error {
	if len(rules) == 1 {
		return w.single(c, n, now, rules[0])
	}
	line := w.line(now)
	charges := make([]Charge, len(rules))
	for i, r := range rules {
		d := w.digests[c][r]
		charges[i] = Charge{Rule: w.lim.rules[r], Key: rawKey(w.lim.rules[r], d), Cost: n}
		w.truth[c][r].At(line)
	}
	d, by := w.lim.takeAll(context.Background(), charges, setTime(w.lim, now))
	if done, err := w.judgeBans(c, n, line, rules, d, by); done || err != nil {
		return err
	}
	if !d.Allowed {
		return w.denied(c, n, now, rules[by])
	}
	for _, r := range rules {
		if err := w.admitted(c, n, now, r); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) single(c int, n uint64, now time.Duration, rule int) error {
	r := w.lim.rules[rule]
	w.truth[c][rule].At(w.line(now))
	d := r.take(context.Background(), rawKey(r, w.digests[c][rule]), n, setTime(w.lim, now), stackStripe())
	if done, err := w.judgeBans(c, n, w.line(now), []int{rule}, d, 0); done || err != nil {
		return err
	}
	if !d.Allowed {
		return w.denied(c, n, now, rule)
	}
	return w.admitted(c, n, now, rule)
}

func (w *world) denied(c int, n uint64, now time.Duration, rule int) error {
	o, cfg := w.truth[c][rule], w.lim.rules[rule].config
	if cfg.Mode == limit.Shadow {
		return nil // what it admitted among others is not visible here
	}
	if !o.Justified(n, cfg.Burst) {
		return fmt.Errorf("P1: client %d, rule %s: %d units denied at %v at level %v of burst %d",
			c, cfg.Name, n, now, float64(o.Level)/float64(o.Per), cfg.Burst)
	}
	return nil
}

func (w *world) admitted(c int, n uint64, now time.Duration, rule int) error {
	o, cfg := w.truth[c][rule], w.lim.rules[rule].config
	if cfg.Mode == limit.Shadow {
		return nil
	}
	level := o.Admit(n)
	bound := (1+*cfg.EscalateAt)*float64(cfg.Burst) + 1
	if cfg.Strict {
		bound = float64(cfg.Burst)
	}
	over := level - o.Units(bound+w.slack) - w.grace(rule)
	if over <= w.worst[c][rule] {
		return nil
	}
	// Each bucket that is given up lets its client have its units again, and
	// no client more: levels that start apart never get further apart.
	w.excess[rule] += over - w.worst[c][rule]
	w.worst[c][rule] = over
	if forgiven := int64(w.before[rule]+w.lim.rules[rule].buckets.Table.Forgiven()) * o.Per; w.excess[rule] > forgiven {
		return fmt.Errorf("P2: client %d, rule %s: level %v after %d units at %v, bound %v; all clients together are %v units above theirs, and %v were forgiven",
			c, cfg.Name, float64(level)/float64(o.Per), n, now, bound, float64(w.excess[rule])/float64(o.Per), float64(forgiven)/float64(o.Per))
	}
	return nil
}

// grace is what reading the clock in whole µs may admit: less than r·1 µs for
// the reading, and as much again for the grace of a bucket whose T is not whole
// µs, by which P1 survives it.
func (w *world) grace(rule int) int64 {
	r := w.lim.rules[rule]
	if !r.buckets.Plain {
		return 0
	}
	grace := int64(r.config.Rate.N*r.CostScale()) * int64(time.Microsecond)
	if r.buckets.Shape.Cost(1)%r.buckets.Shape.Ticks(time.Microsecond) != 0 {
		grace *= 2
	}
	return grace
}

// peer makes another node report of any client that it sent up to three bursts.
func (w *world) peer(rng *rand.Rand, now time.Duration) {
	rule := rng.IntN(len(w.lim.rules))
	r := w.lim.rules[rule]
	chargePeerAt(r, w.digests[rng.IntN(len(w.digests))][rule].Pos, rng.Uint64N(3*r.config.Burst), now)
}

// sandwichCase is a world and how much of it to run.
type sandwichCase struct {
	name    string
	rules   []limit.RuleConfig
	geo     geometry
	clients int
	steps   int
	peers   bool
}

func rule(name string, n uint64, per time.Duration, burst uint64) limit.RuleConfig {
	return limit.RuleConfig{Name: name, Rate: limit.Rate{N: n, Per: per}, Burst: burst}
}

func withTheta(c limit.RuleConfig, theta float64) limit.RuleConfig { c.EscalateAt = &theta; return c }

func withAlgorithm(c limit.RuleConfig, a limit.Algorithm) limit.RuleConfig { c.Algorithm = a; return c }

func withBan(c limit.RuleConfig, p limit.BanPolicy) limit.RuleConfig { c.Ban = p; return c }

func periodic(c limit.RuleConfig) bool { return c.Algorithm >= limit.FixedWindow }

func withStrict(c limit.RuleConfig) limit.RuleConfig { c.Strict = true; return c }

// windowRule counts n units in each period.
func windowRule(name string, n uint64, per time.Duration) limit.RuleConfig {
	return limit.RuleConfig{Name: name, Rate: limit.Rate{N: n, Per: per}, Algorithm: limit.FixedWindow}
}

// slidingRule and logRule count n units in sliding periods.
func slidingRule(name string, n uint64, per time.Duration) limit.RuleConfig {
	return withAlgorithm(windowRule(name, n, per), limit.SlidingWindow)
}

func logRule(name string, n uint64, per time.Duration) limit.RuleConfig {
	return withAlgorithm(windowRule(name, n, per), limit.SlidingLog)
}

func sandwichCases() []sandwichCase {
	tiny := geometry{blocks: 1, sets: 1 << 12, words: 1, hash: randomHash}
	small := geometry{blocks: 8, sets: 1 << 12, words: 64, hash: randomHash}
	wide := geometry{blocks: 1 << 10, sets: 1 << 12, words: 1 << 12, hash: randomHash}
	addrs := geometry{blocks: 1 << 10, sets: 1 << 12, words: 1 << 12, hash: addressHash}
	same := geometry{blocks: 4, sets: 1 << 12, words: 16, hash: degenerateHash}
	full := geometry{blocks: 8, sets: 1 << 12, words: 64, hash: randomHash, bans: 5} // one set
	evict := geometry{blocks: 2, sets: 4, words: 16, hash: randomHash}
	strict := rule("strict", 7, time.Second, 13)
	strict.Strict = true
	shadow := rule("shadow", 5, time.Second, 12)
	shadow.Mode = limit.Shadow
	const k = 3000
	return []sandwichCase{
		{"default", []limit.RuleConfig{rule("a", 100, time.Second, 200)}, small, 40, 1500 * k, false},
		{"wide", []limit.RuleConfig{rule("a", 10, time.Second, 20)}, wide, 60, 1500 * k, false},
		{"one block", []limit.RuleConfig{rule("a", 10, time.Second, 20)}, tiny, 20, 1000 * k, false},
		{"degenerate hash", []limit.RuleConfig{withTheta(rule("a", 3, time.Second, 15), 0.3)}, same, 30, 1000 * k, false},
		{"theta 0.1", []limit.RuleConfig{withTheta(rule("a", 9, time.Minute, 30), 0.1)}, wide, 30, 1000 * k, false},
		{"theta 0.9", []limit.RuleConfig{withTheta(rule("a", 333, time.Second, 50), 0.9)}, wide, 30, 1000 * k, false},
		{"theta 1", []limit.RuleConfig{withTheta(rule("a", 10, time.Minute, 20), 1)}, wide, 30, 500 * k, false},
		{"small burst", []limit.RuleConfig{rule("a", 2, time.Second, 3)}, wide, 30, 500 * k, false},
		{"burst 1", []limit.RuleConfig{rule("a", 70000, time.Second, 1)}, wide, 10, 500 * k, false},
		{"strict", []limit.RuleConfig{strict}, wide, 30, 500 * k, false},
		{"slow", []limit.RuleConfig{rule("a", 1, 24*time.Hour, 12)}, wide, 20, 500 * k, false},
		{"evictions", []limit.RuleConfig{rule("a", 10, time.Second, 20)}, evict, 40, 500 * k, false},
		{"token bucket", []limit.RuleConfig{withAlgorithm(rule("a", 10, time.Second, 20), limit.TokenBucket)}, small, 30, 500 * k, false},
		{"window", []limit.RuleConfig{windowRule("a", 20, time.Second)}, small, 30, 1000 * k, false},
		{"window, wide", []limit.RuleConfig{windowRule("a", 100, time.Minute)}, wide, 60, 1000 * k, false},
		{"window, one block", []limit.RuleConfig{windowRule("a", 15, time.Second)}, tiny, 20, 500 * k, false},
		{"window, degenerate hash", []limit.RuleConfig{withTheta(windowRule("a", 15, 3*time.Second), 0.3)}, same, 30, 500 * k, false},
		{"window, theta 0.9", []limit.RuleConfig{withTheta(windowRule("a", 50, time.Hour), 0.9)}, wide, 30, 500 * k, false},
		{"window, theta 1", []limit.RuleConfig{withTheta(windowRule("a", 20, time.Minute), 1)}, wide, 30, 300 * k, false},
		{"window, small", []limit.RuleConfig{windowRule("a", 3, time.Second)}, wide, 30, 300 * k, false},
		{"window of 1", []limit.RuleConfig{windowRule("a", 1, 24*time.Hour)}, wide, 10, 300 * k, false},
		{"window, strict", []limit.RuleConfig{withStrict(windowRule("a", 13, 7*time.Second))}, wide, 30, 500 * k, false},
		{"window, evictions", []limit.RuleConfig{windowRule("a", 20, time.Second)}, evict, 40, 500 * k, false},
		{"window, peers", []limit.RuleConfig{windowRule("a", 20, time.Second)}, addrs, 30, 300 * k, true},
		{"windows and a bucket", []limit.RuleConfig{windowRule("a", 30, time.Second), rule("b", 7, time.Second, 11), windowRule("c", 40, time.Minute)}, small, 20, 500 * k, false},
		{"sliding", []limit.RuleConfig{slidingRule("a", 20, time.Second)}, small, 30, 1000 * k, false},
		{"sliding, wide", []limit.RuleConfig{slidingRule("a", 100, time.Minute)}, wide, 60, 1000 * k, false},
		{"sliding, one block", []limit.RuleConfig{slidingRule("a", 15, time.Second)}, tiny, 20, 300 * k, false},
		{"sliding, degenerate hash", []limit.RuleConfig{withTheta(slidingRule("a", 15, 3*time.Second), 0.3)}, same, 30, 300 * k, false},
		{"sliding, theta 1", []limit.RuleConfig{withTheta(slidingRule("a", 20, time.Hour), 1)}, wide, 30, 300 * k, false},
		{"sliding, small", []limit.RuleConfig{slidingRule("a", 3, time.Second)}, wide, 30, 300 * k, false},
		{"sliding of 1", []limit.RuleConfig{slidingRule("a", 1, 24*time.Hour)}, wide, 10, 200 * k, false},
		{"sliding, strict", []limit.RuleConfig{withStrict(slidingRule("a", 13, 7*time.Second))}, wide, 30, 300 * k, false},
		{"sliding, evictions", []limit.RuleConfig{slidingRule("a", 20, time.Second)}, evict, 40, 300 * k, false},
		{"sliding, peers", []limit.RuleConfig{slidingRule("a", 20, time.Second)}, addrs, 30, 200 * k, true},
		{"log", []limit.RuleConfig{logRule("a", 20, time.Second)}, small, 30, 1000 * k, false},
		{"log, wide", []limit.RuleConfig{logRule("a", 100, time.Minute)}, wide, 60, 1000 * k, false},
		{"log, one block", []limit.RuleConfig{logRule("a", 15, time.Second)}, tiny, 20, 300 * k, false},
		{"log, degenerate hash", []limit.RuleConfig{withTheta(logRule("a", 15, 3*time.Second), 0.3)}, same, 30, 300 * k, false},
		{"log, theta 1", []limit.RuleConfig{withTheta(logRule("a", 20, time.Hour), 1)}, wide, 30, 300 * k, false},
		{"log, small", []limit.RuleConfig{logRule("a", 3, time.Second)}, wide, 30, 300 * k, false},
		{"log of 1", []limit.RuleConfig{logRule("a", 1, 24*time.Hour)}, wide, 10, 200 * k, false},
		{"log, strict", []limit.RuleConfig{withStrict(logRule("a", 13, 7*time.Second))}, wide, 30, 300 * k, false},
		{"log, evictions", []limit.RuleConfig{logRule("a", 20, time.Second)}, evict, 40, 300 * k, false},
		{"log, peers", []limit.RuleConfig{logRule("a", 20, time.Second)}, addrs, 30, 200 * k, true},
		{"all algorithms", []limit.RuleConfig{slidingRule("a", 30, time.Second), rule("b", 7, time.Second, 11), logRule("c", 40, time.Minute), windowRule("d", 35, time.Second)}, small, 20, 300 * k, false},
		{"three rules", []limit.RuleConfig{rule("a", 100, time.Second, 100), rule("b", 7, time.Second, 11), rule("c", 60, time.Minute, 40)}, small, 20, 500 * k, false},
		{"shadow among two", []limit.RuleConfig{rule("a", 20, time.Second, 25), shadow, strict}, wide, 20, 300 * k, false},
		{"bans", []limit.RuleConfig{withBan(rule("a", 10, time.Second, 20), limit.BanPolicy{After: 5, For: time.Second, Max: 9 * time.Second})}, small, 30, 1000 * k, false},
		{"bans at once", []limit.RuleConfig{withBan(rule("a", 10, time.Second, 20), limit.BanPolicy{After: 1, For: 2 * time.Second})}, wide, 30, 500 * k, false},
		{"bans, one block", []limit.RuleConfig{withBan(rule("a", 100, time.Second, 200), limit.BanPolicy{After: 40, Within: time.Second, For: time.Second, Max: time.Minute})}, tiny, 20, 500 * k, false},
		{"bans, degenerate hash", []limit.RuleConfig{withBan(withTheta(rule("a", 3, time.Second, 15), 0.3), limit.BanPolicy{After: 9, For: 3 * time.Second, Max: time.Hour})}, same, 30, 300 * k, false},
		{"bans, full table", []limit.RuleConfig{withBan(rule("a", 10, time.Second, 20), limit.BanPolicy{After: 2, For: time.Second, Max: 5 * time.Second})}, full, 40, 500 * k, false},
		{"bans, strict", []limit.RuleConfig{withBan(strict, limit.BanPolicy{After: 3, For: time.Second, Max: 4 * time.Second})}, wide, 30, 300 * k, false},
		{"bans, window", []limit.RuleConfig{withBan(windowRule("a", 20, time.Second), limit.BanPolicy{After: 5, For: time.Second, Max: 9 * time.Second})}, small, 30, 300 * k, false},
		{"bans, sliding", []limit.RuleConfig{withBan(slidingRule("a", 20, time.Second), limit.BanPolicy{After: 5, For: time.Second, Max: 9 * time.Second})}, small, 30, 300 * k, false},
		{"bans, log", []limit.RuleConfig{withBan(logRule("a", 20, time.Second), limit.BanPolicy{After: 5, For: time.Second, Max: 9 * time.Second})}, small, 30, 300 * k, false},
		{"bans of three rules", []limit.RuleConfig{
			withBan(rule("a", 100, time.Second, 100), limit.BanPolicy{After: 5, For: time.Second, Max: 9 * time.Second}), rule("b", 7, time.Second, 11),
			withBan(rule("c", 60, time.Minute, 40), limit.BanPolicy{After: 3, For: 2 * time.Second}),
		}, small, 20, 300 * k, false},
		{"bans beside a shadow", []limit.RuleConfig{withBan(rule("a", 20, time.Second, 25), limit.BanPolicy{After: 3, For: time.Second}), withBan(shadow, limit.BanPolicy{After: 1, For: time.Second})}, full, 20, 300 * k, false},
		{"peers", []limit.RuleConfig{rule("a", 10, time.Second, 20)}, addrs, 30, 500 * k, true},
		{"peers in a crowd", []limit.RuleConfig{rule("a", 100, time.Second, 100), rule("b", 7, time.Second, 11)}, small, 20, 300 * k, true},
	}
}

// TestSandwich makes 10^7 random and adversarial decisions, 3·10^7 with -sandwich 1.
func TestSandwich(t *testing.T) {
	t.Parallel()
	total := 0
	for i, c := range sandwichCases() {
		steps := int(float64(c.steps) * *sandwichScale)
		if raceEnabled {
			steps /= 6
		}
		total += steps
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(i), 42))
			for steps > 0 {
				w := newWorld(t, rng, c.clients, c.geo, c.rules...)
				w.peers = c.peers
				auditAll(w.lim)
				steps -= drive(t, w, rng, steps)
				silent(t, w.lim)
				if evicted := w.lim.rules[0].buckets.Table.Evictions() > 0; evicted != strings.HasSuffix(c.name, "evictions") {
					t.Errorf("evictions: %v", evicted)
				}
			}
		})
	}
	if total < 30_000_000 && !raceEnabled && *sandwichScale >= 1 {
		t.Errorf("%d decisions, want 3·10^7 or more", total)
	}
}

// drive sends steps requests in phases, each with a traffic pattern of its
// own, and returns how many it sent: time in int64 ns ends after 292 years.
func drive(t *testing.T, w *world, rng *rand.Rand, steps int) (done int) {
	t.Helper()
	const century = 100 * 365 * 24 * time.Hour
	var now time.Duration
	for done < steps && now < century {
		p := newPattern(rng, w, len(w.digests))
		for range min(1000+rng.IntN(4000), steps-done) {
			if max(now, w.latest) > century { // pulses of a slow rule take weeks
				return done
			}
			done++
			now += p.gap(rng, w)
			if w.peers && rng.IntN(8) == 0 {
				w.peer(rng, now)
			}
			if err := w.request(p.client(rng), p.cost(rng), now, p.rules); err != nil {
				t.Fatalf("decision %d, %s: %v", done, p.name, err)
			}
		}
		advanceAt(w.lim, now)
	}
	return done
}
