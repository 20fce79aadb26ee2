package engine

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// stagesOf makes so many requests and returns the stages that decided, in short.
func stagesOf(n int, take func() limit.Decision) string {
	var s []string
	for range n {
		s = append(s, take().Stage.String())
	}
	return strings.Join(s, " ")
}

func wantStages(t *testing.T, what string, take func() limit.Decision, want string) {
	t.Helper()
	if got := stagesOf(len(strings.Fields(want)), take); got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// Among several rules a ban decides before all tables, the longest of several is returned, and a banned
// request is charged nowhere. A shadow rule bans in shadow mode.
func TestBansOfSeveralRules(t *testing.T) {
	t.Parallel()
	shadow := withBan(strictRule("shadow", 1, time.Hour, 2), limit.BanPolicy{After: 1, For: time.Hour})
	shadow.Mode = limit.Shadow
	var begun []string
	lim, err := New(Config{Clock: new(ManualClock), OnBan: func(b Ban) { begun = append(begun, b.Rule.Name()) }, Rules: []limit.RuleConfig{
		shadow,
		strictRule("slow", 1, 24*time.Hour, 8), // denies for longer than bans last
		withBan(strictRule("short", 1, time.Hour, 3), limit.BanPolicy{After: 2, For: time.Minute}),
		withBan(strictRule("long", 1, time.Hour, 3), limit.BanPolicy{After: 3, Within: 10 * time.Minute, For: time.Hour}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	charges := make([]Charge, len(lim.rules))
	for i, r := range lim.rules {
		charges[i] = charge(r, 1)
	}
	var by int
	take := func() (d limit.Decision) {
		d, by = lim.TakeAll(t.Context(), charges)
		return d
	}
	wantStages(t, "short bans", take, "exact exact exact table ban ban")
	if by != 2 || !slices.Equal(begun, []string{"shadow", "short"}) {
		t.Errorf("by %d, begun %v", by, begun)
	}
	slow := lim.rules[1]
	if d := slow.Peek(charges[1].Key, 0); d.Remaining != 5 {
		t.Errorf("banned requests are charged: %+v", d)
	}
	setTime(lim, time.Minute)
	wantStages(t, "after its end", take, "ban ban")
	if by != 3 || take().RetryAfter != time.Hour || len(begun) != 4 { // an eighth is one; and long
		t.Errorf("by %d, begun %v", by, begun)
	}
	if _, ok := lim.rules[2].Banned(charges[2].Key); !ok {
		t.Error("the shorter ban has not begun")
	}
	s := lim.rules[0].Stats()
	if s.Denied[limit.StageBan] == 0 || s.Bans != 1 {
		t.Errorf("shadow: %+v", s)
	}
	if n := lim.rules[0].Stats().Allowed[limit.StageExact]; n != 2 {
		t.Errorf("the shadow rule charged %d", n)
	}
	if d, by := lim.TakeAll(t.Context(), charges[:2]); !d.Allowed || by != 1 {
		t.Errorf("a shadow ban denies: %+v by %d", d, by)
	}
}

// A peek, a cost of 0, and a Settle that does not fit count towards no ban; TakeUpTo counts if it takes
// nothing. A banned client is assured of nothing.
func TestWhatCounts(t *testing.T) {
	t.Parallel()
	lim := mustNew(t, withBan(strictRule("a", 1, time.Hour, 2), limit.BanPolicy{After: 2, For: time.Minute}))
	r := lim.rules[0]
	key, ctx := r.BytesKey([]byte("x")), t.Context()
	r.Take(ctx, key, 2)
	for range 10 {
		r.Peek(key, 1)
		r.Take(ctx, key, 0)
		_, _ = lim.TakeAll(ctx, []Charge{{r, key, 0}})
		r.Settle(ctx, key, 1, 2, 0)
	}
	if d, n := r.TakeUpTo(ctx, key, 2); d.Stage != limit.StageTable || n != 0 {
		t.Errorf("%+v, took %d", d, n)
	}
	if d, n := r.TakeUpTo(ctx, key, 2); d.Stage != limit.StageBan || n != 0 {
		t.Errorf("%+v, took %d", d, n)
	}
	if d := r.Assured(key); d.Allowed || d.Stage != limit.StageBan || d.Remaining != 0 {
		t.Errorf("assured: %+v", d)
	}
	if d := r.Take(ctx, key, 0); d.Allowed || d.Stage != limit.StageBan {
		t.Errorf("a request that costs nothing: %+v", d)
	}
	r.Reset(key)
	if d := r.Take(ctx, key, 1); d.Stage != limit.StageBan {
		t.Errorf("after a reset: %+v", d)
	}
}

// Tiers and named rates have the bans of their rule.
func TestBansOfTiersAndRates(t *testing.T) {
	t.Parallel()
	a := withBan(rule("a", 1, time.Hour, 2), limit.BanPolicy{After: 2, For: time.Minute})
	a.Tiers, a.MaxRate = []limit.Tier{{Burst: 3}}, limit.Rate{N: 100, Per: time.Second}
	var begun []*Rule
	lim, err := New(Config{Clock: new(ManualClock), Rules: []limit.RuleConfig{a}, OnBan: func(b Ban) { begun = append(begun, b.Rule) }})
	if err != nil {
		t.Fatal(err)
	}
	r, ctx := lim.rules[0], t.Context()
	live, err := r.NewTier(limit.Tier{Burst: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i, one := range []*Rule{r.Tier(0), r.AtRate(limit.Rate{N: 5, Per: time.Hour}), live} {
		key := r.BytesKey([]byte{byte(i)})
		take := func() limit.Decision { return one.Take(ctx, key, 1) }
		for take().Allowed {
		}
		wantStages(t, "limit", take, "ban ban")
		if d := r.Take(ctx, key, 1); d.Stage != limit.StageBan || len(begun) != i+1 || begun[i] != r {
			t.Errorf("limit %d: its rule says %+v; begun by %v", i, d, begun)
		}
		if !one.Unban(key) {
			t.Errorf("limit %d: not unbanned", i)
		}
	}
}

// Bans, what counts towards them and what is remembered stay with the rule.
func TestWithKeepsBans(t *testing.T) {
	t.Parallel()
	config := func() Config {
		c := withBan(strictRule("a", 100, time.Second, 1), limit.BanPolicy{After: 16, For: time.Minute, Max: time.Hour})
		return Config{Rules: []limit.RuleConfig{c}, Memory: 8 << 20}
	}
	for name, tt := range map[string]struct {
		change                 func(*Config)
		bans, counts, remember bool
	}{
		"nothing": {func(*Config) {}, true, true, true},
		"shadow":  {func(c *Config) { c.Rules[0].Mode = limit.Shadow }, true, true, true},
		"for":     {func(c *Config) { c.Rules[0].Ban.For, c.Rules[0].Ban.Max = 2*time.Second, time.Minute }, true, true, true},
		"within":  {func(c *Config) { c.Rules[0].Ban.Within = time.Minute }, true, true, true},
		"another rule with bans": {func(c *Config) {
			c.Rules = append(c.Rules, withBan(strictRule("b", 1000, time.Second, 1), limit.BanPolicy{After: 1, For: time.Second}))
		}, true, true, true},
		"no bans": {func(c *Config) { c.Rules[0].Ban = limit.BanPolicy{} }, false, false, false},
	} {
		c := config()
		c.Clock = new(ManualClock)
		old, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		deny := func(r *Rule, who string, n int) (d limit.Decision) {
			for range n {
				d = r.Take(t.Context(), r.BytesKey([]byte(who)), 1)
			}
			return d
		}
		if d := deny(old.rules[0], "remembered", 17); d.Stage != limit.StageBan {
			t.Fatalf("%s: %+v", name, d)
		}
		setTime(old, 2*time.Minute)
		deny(old.rules[0], "banned", 17)
		deny(old.rules[0], "counted", 16)
		next := config()
		tt.change(&next)
		r := mustWith(t, old, next).rules[0]
		if !r.Continues(old.rules[0]) {
			t.Fatalf("%s: begins anew", name)
		}
		if left, ok := r.Banned(r.BytesKey([]byte("banned"))); ok != tt.bans || ok && left != time.Minute {
			t.Errorf("%s: banned %t for %v", name, ok, left)
		}
		if d := deny(r, "counted", 1); (d.Stage == limit.StageBan) != tt.counts {
			t.Errorf("%s: the last denial: %+v", name, d)
		}
		if d := deny(r, "remembered", 3); (d.Stage == limit.StageBan) != tt.remember {
			t.Errorf("%s: who was banned before: %+v", name, d)
		}
	}
}

// With a shared store its denials count, and so do those of the table that it has fed; what
// the failure policy denies does not, nor what hangs up.
func TestBansWithAStore(t *testing.T) {
	for _, policy := range []limit.OnFailure{limit.FailLocal, limit.FailClosed} {
		synctest.Test(t, func(t *testing.T) {
			s := millisecond(t)
			c := withBan(strictRule("a", 1, time.Hour, 2), limit.BanPolicy{After: 4, For: time.Minute})
			c.OnFailure = policy
			r := sharedLimiter(t, s, c).rules[0]
			take := func(who string) func() limit.Decision {
				return func() limit.Decision { return r.Take(t.Context(), r.BytesKey([]byte(who)), 1) }
			}
			gone := func() limit.Decision {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Microsecond)
				defer cancel()
				defer time.Sleep(5 * time.Millisecond)
				return r.Take(ctx, r.BytesKey([]byte("gone")), 1)
			}
			wantStages(t, "hung up", gone, "exact exact exact exact exact exact exact exact")
			wantStages(t, "denied", take("x"), "exact exact table table table ban")
			s.delay = func() time.Duration { return time.Hour }
			stages := stagesOf(20, take("away"))
			if policy == limit.FailClosed && strings.Contains(stages, "ban") {
				t.Errorf("banned for what nobody knows: %s", stages)
			}
		})
	}
}

// A request that would wait too long is denied, and counts. One without a free slot does not: others have
// taken the slots.
func TestBansAndWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withBan(waitRule("a", 1, 1, time.Second), limit.BanPolicy{After: 2, For: time.Minute})
		lim := waiting(t, Config{Rules: []limit.RuleConfig{c}, Wait: limit.WaitLimits{Total: 1}})
		r := lim.rules[0]
		wait := func(who string, n uint64) func() limit.Decision {
			return func() limit.Decision { return r.Wait(t.Context(), r.BytesKey([]byte(who)), n) }
		}
		wantStages(t, "first", wait("x", 1), "exact")
		go wait("x", 1)() // takes the only place, for a second
		synctest.Wait()
		wantStages(t, "too long", wait("x", 1), "table ban ban")
		wantStages(t, "first", wait("y", 1), "exact")
		wantStages(t, "no place", wait("y", 1), "table table table table")
		time.Sleep(2 * time.Second)
		if s := r.Stats().Waits; s.Denied != 1 || s.Admitted != 0 {
			t.Errorf("who waited when the ban began: %+v", s)
		}
	})
}
