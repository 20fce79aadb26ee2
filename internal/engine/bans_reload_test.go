package engine

import (
	"runtime"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// A client that a rule has denied in shadow is not banned when the rule is enforced, nor are
// those denials counted: it has got an answer to each of its requests. Without a change of mode,
// and from enforced to shadow, bans and counts stay, by another table too.
func TestModesAndBans(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		was, is limit.Mode
		within  time.Duration // of the rule that follows
		stays   bool
	}{
		{limit.Shadow, limit.Enforce, 0, false},
		{limit.Shadow, limit.Enforce, time.Minute, false},
		{limit.Shadow, limit.Shadow, 0, true},
		{limit.Enforce, limit.Enforce, 0, true},
		{limit.Enforce, limit.Shadow, 0, true},
		{limit.Enforce, limit.Enforce, time.Minute, true},
	} {
		config := func(m limit.Mode, within time.Duration) Config {
			c := banRule("a")
			c.Mode, c.Ban.Within = m, within
			return Config{Rules: []limit.RuleConfig{c}}
		}
		first := config(tc.was, 0)
		first.Clock = new(ManualClock)
		old, err := New(first)
		if err != nil {
			t.Fatal(err)
		}
		deny := func(r *Rule, key string, n int) (last limit.Decision) {
			for range n {
				last = r.Take(t.Context(), r.BytesKey([]byte(key)), 1)
			}
			return last
		}
		r := old.Rules()[0]
		deny(r, "banned", 5)
		if _, ok := r.Banned(r.BytesKey([]byte("banned"))); !ok {
			t.Fatalf("%+v: no ban", tc)
		}
		deny(r, "denied", 2+2) // one more would begin a ban
		next := mustWith(t, old, config(tc.is, tc.within)).Rules()[0]
		if _, ok := next.Banned(next.BytesKey([]byte("banned"))); ok != tc.stays {
			t.Errorf("%+v: banned %v", tc, ok)
		}
		deny(next, "denied", 1)
		if _, ok := next.Banned(next.BytesKey([]byte("denied"))); ok != tc.stays {
			t.Errorf("%+v: banned by denials before: %v", tc, ok)
		}
	}
}

// A ban that begins in an old limiter is passed to the new one, which has another table, and one that it
// takes over lasts no longer than the new Max.
func TestBansOfTheOldLimiter(t *testing.T) {
	t.Parallel()
	old := mustNew(t, banRule("a"))
	was := old.rules[0]
	deny := func(client string) {
		for range 5 {
			was.Take(t.Context(), was.BytesKey([]byte(client)), 1)
		}
	}
	deny("before")
	c := banRule("a")
	c.Ban = limit.BanPolicy{After: 3, For: 2 * time.Second, Max: 5 * time.Second, Within: time.Minute}
	next := mustWith(t, old, Config{Rules: []limit.RuleConfig{c}})
	is := next.rules[0]
	deny("since")
	for _, client := range []string{"before", "since"} {
		if left, ok := is.Banned(is.BytesKey([]byte(client))); !ok || left != 5*time.Second {
			t.Errorf("banned %s: %v for %v, want 5s", client, ok, left)
		}
	}
	runtime.KeepAlive(next)
}
