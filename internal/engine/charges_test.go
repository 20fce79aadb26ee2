package engine

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

func mustNew(tb testing.TB, rules ...limit.RuleConfig) *Limiter {
	tb.Helper()
	lim, err := New(Config{Rules: rules, Clock: new(ManualClock), Memory: 4 << 20})
	if err != nil {
		tb.Fatal(err)
	}
	return lim
}

func strictRule(name string, n uint64, per time.Duration, burst uint64) limit.RuleConfig {
	c := rule(name, n, per, burst)
	c.Strict = true
	return c
}

func charge(r *Rule, n uint64) Charge {
	return Charge{Rule: r, Key: r.BytesKey([]byte("client")), Cost: n}
}

// level is what the bucket of the test's client holds, in units.
func level(r *Rule, now time.Duration) uint64 {
	d := r.BytesKey([]byte("client")).digest()
	tat, t := r.buckets.Table.Lookup(d), r.buckets.Shape.Ticks(setTime(r.limiter, now))
	return (max(tat, t) - t) / r.buckets.Shape.Unit()
}

func TestTakeAllGivesBack(t *testing.T) {
	t.Parallel()
	lim := mustNew(t, strictRule("wide", 1, time.Second, 100), strictRule("tight", 1, time.Second, 3))
	wide, tight := lim.rules[0], lim.rules[1]
	// Read before anything is charged, the table admits every charge; the
	// second one of the tight rule is then denied by its bucket.
	d, by := takeAllAt(lim, []Charge{charge(wide, 5), charge(tight, 2), charge(tight, 2)}, 0)
	if d.Allowed || d.Stage != limit.StageExact || by != 2 {
		t.Fatalf("got %+v by %d, want a denial by charge 2 at the exact stage", d, by)
	}
	if got := level(wide, 0); got != 0 {
		t.Errorf("the rule before the one that denied still holds %d units", got)
	}
	if got := level(tight, 0); got != 0 {
		t.Errorf("the first charge of the rule that denied still holds %d units", got)
	}
}

func TestTakeAllDeniesByTableFirst(t *testing.T) {
	t.Parallel()
	lim := mustNew(t, strictRule("a", 1, time.Second, 5), strictRule("b", 1, time.Second, 2),
		strictRule("c", 1, time.Minute, 2), strictRule("d", 1, time.Second, 2))
	a, all := lim.rules[0], []Charge{}
	for _, r := range lim.rules {
		all = append(all, charge(r, 1))
	}
	for range 2 {
		if d, _ := takeAllAt(lim, all, 0); !d.Allowed {
			t.Fatalf("denied within all bursts: %+v", d)
		}
	}
	d, by := takeAllAt(lim, all, 0)
	if d.Allowed || by != 2 || d.Stage != limit.StageTable || d.RetryAfter != time.Minute {
		t.Errorf("got %+v by %d, want the denial with the longest retry, rule 2 after a minute", d, by)
	}
	if got := level(a, 0); got != 2 {
		t.Errorf("rule a holds %d units, want 2: a request that another rule denies is not charged", got)
	}
}

func TestShadowChangesNothing(t *testing.T) {
	t.Parallel()
	shadow := strictRule("shadow", 1, time.Second, 1)
	shadow.Mode = limit.Shadow
	lim := mustNew(t, shadow, strictRule("real", 1, time.Second, 3))
	sh, real := lim.rules[0], lim.rules[1]
	for i := range 3 {
		d, by := takeAllAt(lim, []Charge{charge(sh, 1), charge(real, 1)}, 0)
		if !d.Allowed || by != 1 || d.Remaining != int64(2-i) {
			t.Fatalf("request %d: %+v by %d, want an admission by rule real", i, d, by)
		}
	}
	s := sh.Stats()
	if s.Allowed[limit.StageExact] != 1 || s.Denied[limit.StageTable] != 2 {
		t.Errorf("shadow counted %v allowed, %v denied; want 1 and 2", s.Allowed, s.Denied)
	}
	if d, by := takeAllAt(lim, []Charge{charge(sh, 1)}, 0); !d.Allowed || by != -1 {
		t.Errorf("a shadow rule alone: %+v by %d, want an admission by none", d, by)
	}
	if !sh.Allow(sh.BytesKey([]byte("client"))) {
		t.Error("Allow of a shadow rule denied")
	}
	// Denied by the bucket of the real rule, see TestTakeAllGivesBack.
	later := time.Hour
	d, by := takeAllAt(lim, []Charge{charge(sh, 1), charge(real, 2), charge(real, 2)}, later)
	if d.Allowed || by != 2 {
		t.Fatalf("got %+v by %d, want a denial by charge 2", d, by)
	}
	if got := level(sh, later); got != 0 {
		t.Errorf("the shadow bucket holds %d units of a denied request", got)
	}
}

func TestTakeAllOfNothing(t *testing.T) {
	t.Parallel()
	lim := mustNew(t, rule("a", 1, time.Second, 5))
	if d, by := lim.TakeAll(t.Context(), nil); !d.Allowed || by != -1 {
		t.Errorf("no rule applies: %+v by %d, want an admission by none", d, by)
	}
}

// A reading made before the call is the time at which the request is judged.
func TestTakeAllAt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		theta := 0.0
		lim, err := New(Config{Memory: limit.MinMemory, Rules: []limit.RuleConfig{
			{Name: "a", Rate: limit.Rate{N: 1, Per: time.Second}, Burst: 1, EscalateAt: &theta, Strict: true},
		}})
		if err != nil {
			t.Fatal(err)
		}
		r := lim.Rules()[0]
		all := []Charge{{Rule: r, Key: r.AddrKey(netip.MustParseAddr("192.0.2.1")), Cost: 1}}
		if d, by := lim.TakeAllAt(t.Context(), all, time.Now()); !d.Allowed || by != 0 {
			t.Fatalf("the first: %+v, by %d", d, by)
		}
		time.Sleep(600 * time.Millisecond)
		read := time.Now()
		time.Sleep(600 * time.Millisecond)
		if d, _ := lim.TakeAllAt(t.Context(), all, read); d.Allowed || d.RetryAfter != 400*time.Millisecond {
			t.Errorf("read 0.6 s after the first: %+v", d)
		}
		if d, _ := lim.TakeAllAt(t.Context(), all, time.Now()); !d.Allowed {
			t.Errorf("read 1.2 s after the first: %+v", d)
		}
		if d, _ := lim.TakeAll(t.Context(), all); d.Allowed || d.RetryAfter != time.Second {
			t.Errorf("on the limiter's own clock: %+v", d)
		}
	})
}

// A shadow rule that is over counts a request once, though DenyAllAt is asked before.
func TestDenyAllAtChangesNothing(t *testing.T) {
	t.Parallel()
	shadow, enforced := rule("shadow", 1, time.Hour, 1), rule("enforced", 1, time.Hour, 100)
	shadow.Mode, shadow.Strict = limit.Shadow, true
	lim, err := New(Config{Rules: []limit.RuleConfig{shadow, enforced}, Memory: 2 << 20})
	if err != nil {
		t.Fatal(err)
	}
	all := []Charge{charge(lim.rules[0], 1), charge(lim.rules[1], 1)}
	for range 5 {
		if d, by, denied := lim.DenyAllAt(all, time.Now()); denied || by != -1 {
			t.Fatalf("%+v by %d", d, by)
		}
		lim.TakeAll(t.Context(), all)
	}
	if n := lim.rules[0].Stats().Denied[limit.StageTable]; n != 4 {
		t.Errorf("%d denials of 4", n)
	}
}
