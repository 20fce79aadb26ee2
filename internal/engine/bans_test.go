package engine

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/judge"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// banRule is a strict rule of one unit a second that bans after three denials.
func banRule(name string) limit.RuleConfig {
	c := strictRule(name, 1, time.Second, 2)
	c.Ban = limit.BanPolicy{After: 3, For: 10 * time.Second, Max: time.Minute}
	return c
}

// TestConformingIsNeverBanned runs 10^6 clients through conforming histories, together with others that
// flood, where everything collides: sketch, filter, buckets' sets, and the sets of a table of bans that has
// room for seven, under a policy that bans at the first denial.
func TestConformingIsNeverBanned(t *testing.T) {
	t.Parallel()
	histories := 1_000_000
	if raceEnabled {
		histories /= 20
	}
	rules := []limit.RuleConfig{
		rule("a", 10, time.Second, 20), strictRule("a", 1000, time.Second, 3), withTheta(rule("a", 7, time.Minute, 30), 0.1),
		windowRule("a", 15, time.Second), slidingRule("a", 15, time.Second), logRule("a", 15, time.Second),
	}
	geo := geometry{blocks: 1, sets: 64, words: 1, bans: 5, hash: randomHash}
	for i, c := range rules {
		c = withBan(c, limit.BanPolicy{After: 1, For: time.Second, Max: time.Minute})
		t.Run(c.Algorithm.String(), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(i), 5))
			w := newWorld(t, rng, 1, geo, c)
			r, now, mean := w.lim.rules[0], time.Duration(0), float64(c.Rate.Per)/float64(c.Rate.N)
			flooders := make([]sketch.Digest, 12)
			for i := range flooders {
				flooders[i] = randomHash(rng, 0)
			}
			served := 0
			for h := range histories / len(rules) {
				d, o := randomHash(rng, 0), judge.Of(r.config)
				if h%2 == 0 {
					d.Pos = flooders[h%len(flooders)].Pos // in the same sets and cells
				}
				for range 2 + rng.IntN(6) {
					now += time.Duration(rng.ExpFloat64() * mean)
					takeAt(r, rawKey(r, flooders[rng.IntN(len(flooders))]), 1+rng.Uint64N(r.config.Burst), now)
					o.At(now)
					n := 1 + rng.Uint64N(min(6, r.config.Burst))
					if o.Justified(n, r.config.Burst) {
						continue // it would not conform
					}
					o.Admit(n)
					if v := takeAt(r, rawKey(r, d), n, now); !v.Allowed {
						t.Fatalf("history %d: %+v for %d units within the limit", h, v, n)
					}
					served++
				}
				if left, banned := r.Banned(rawKey(r, d)); banned {
					t.Fatalf("history %d: banned for %v", h, left)
				}
			}
			if s := r.Stats(); s.Bans == 0 || s.BansRefused+s.DenialsUncounted == 0 || s.Denied[limit.StageBan] == 0 || served < histories/len(rules) {
				t.Errorf("%d served, %+v", served, s)
			}
		})
	}
}

func TestBan(t *testing.T) {
	t.Parallel()
	var begun []Ban
	clock := new(ManualClock)
	lim, err := New(Config{Rules: []limit.RuleConfig{banRule("a")}, Clock: clock, OnBan: func(b Ban) { begun = append(begun, b) }})
	if err != nil {
		t.Fatal(err)
	}
	r := lim.rules[0]
	key, other := r.AddrKey(netip.MustParseAddr("192.0.2.7")), r.AddrKey(netip.MustParseAddr("192.0.2.8"))
	take := func(k Key) limit.Decision { return r.Take(t.Context(), k, 1) }
	for i, want := range []limit.Stage{limit.StageExact, limit.StageExact, limit.StageTable, limit.StageTable, limit.StageBan, limit.StageBan} {
		if d := take(key); d.Stage != want || d.Allowed != (i < 2) || want == limit.StageBan && (d.RetryAfter != 10*time.Second || d.Remaining != 0) {
			t.Errorf("request %d: %+v, want stage %v", i, d, want)
		}
	}
	if len(begun) != 1 || begun[0].Rule != r || begun[0].Key != "192.0.2.7" || begun[0].Left != 10*time.Second || begun[0].Times != 1 || begun[0].Digest != key.Digest() {
		t.Errorf("OnBan: %+v", begun)
	}
	if p, ok := begun[0].Rule.prefixes.Prefix([]byte(begun[0].Name)); !ok || p != netip.MustParsePrefix("192.0.2.7/32") {
		t.Errorf("prefix %v", p)
	}
	if d := take(other); !d.Allowed {
		t.Errorf("another client: %+v", d)
	}
	clock.Set(10*time.Second - 1)
	if left, ok := r.Banned(key); !ok || left != 1 || take(key).Allowed {
		t.Errorf("1 ns before the end: banned %t for %v", ok, left)
	}
	if d := r.Peek(key, 1); d.Stage != limit.StageBan || d.Allowed {
		t.Errorf("peek: %+v", d)
	}
	clock.Set(10 * time.Second)
	if d := take(key); !d.Allowed {
		t.Errorf("at its end: %+v", d)
	}
	if s := r.Stats(); s.Bans != 1 || s.BansRunning != 0 || s.Denied[limit.StageBan] != 3 || s.Denied[limit.StageTable] != 2 {
		t.Errorf("stats: %+v", s)
	}
	take(key)
	if d := take(key); d.Stage != limit.StageBan || d.RetryAfter != 20*time.Second {
		t.Errorf("a repeat offender: %+v, want a ban twice as long", d)
	}
	n := 0
	for b := range r.Bans() {
		n++
		if b.Key != "192.0.2.7" || b.Times != 2 || b.Left != 20*time.Second {
			t.Errorf("bans: %+v", b)
		}
	}
	if n != 1 || !r.Unban(key) || r.Unban(key) {
		t.Errorf("%d bans, or unbanned wrongly", n)
	}
	if d := take(key); d.Stage != limit.StageTable {
		t.Errorf("after unban: %+v", d)
	}
	if !r.BanFor(&Ban{Digest: other.Digest(), Name: begun[0].Name, Left: time.Hour}) {
		t.Error("not banned for another node")
	}
	if left, ok := r.Banned(other); !ok || left != time.Minute {
		t.Errorf("by another node: %v, want the rule's own Max", left)
	}
}
