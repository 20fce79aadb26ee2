package replay

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/policy"
)

func banRule(strict bool, p fastlimit.BanPolicy) policy.RuleSpec {
	s := rule("per-ip", "12/m", 12)
	s.Limit.Strict, s.Limit.Ban = strict, p
	return s
}

// live asks a limiter about each request of the log at its own time.
func live(t *testing.T, hits []hit, s policy.RuleSpec) (denied, banned int) {
	t.Helper()
	clock := new(fastlimit.ManualClock)
	lim, err := fastlimit.New(fastlimit.Config{Rules: []fastlimit.RuleConfig{s.Limit}, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	r, start := lim.Rules()[0], int64(0)
	for i, h := range slices.SortedStableFunc(slices.Values(hits), func(a, b hit) int { return cmp.Compare(a.at, b.at) }) {
		if i == 0 {
			start = h.at
		}
		clock.Set(time.Duration(h.at-start) * time.Second)
		if d := r.Take(t.Context(), r.AddrKey(h.client), 1); !d.Allowed {
			if denied++; d.Stage == fastlimit.StageBan {
				banned++
			}
		}
	}
	return denied, banned
}

// A log is judged with bans as the requests were, and the oracle finds every ban right.
func TestBansAsLive(t *testing.T) {
	t.Parallel()
	hits := generate(testkit.Size(25_000, 100_000), 90)
	for _, p := range []fastlimit.BanPolicy{
		{After: 3, For: 30 * time.Second, Max: time.Hour},
		{After: 1, For: 10 * time.Minute},
		{After: 20, Within: time.Minute, For: time.Second, Max: time.Minute},
	} {
		for _, strict := range []bool{false, true} {
			s := banRule(strict, p)
			r := mustRun(t, logOf(hits), config(policy.Settings{Rules: []policy.RuleSpec{s}}))
			byBans := 0
			for _, stage := range r.Rules[0].Stages {
				if stage.Stage == "ban" {
					byBans = int(stage.Denied)
				}
			}
			denied, banned := live(t, hits, s)
			t.Logf("%+v: %d denied, %d of them by bans", p, r.Denied, byBans)
			// Without strict a sketch decides whom the bucket sees, by a secret.
			if strict && (r.Denied != denied || byBans != banned) || byBans == 0 || r.FalseDenials > 0 {
				t.Errorf("%+v, strict %t: %d denied, %d by bans, %d false; live %d and %d", p, strict, r.Denied, byBans, r.FalseDenials, denied, banned)
			}
		}
	}
}

// The oracle of bans takes no ban for right that is not.
func TestOracleOfBans(t *testing.T) {
	t.Parallel()
	const s = time.Second
	p := fastlimit.BanPolicy{After: 9, Within: 10 * s, For: 20 * s, Max: 60 * s}
	for name, tt := range map[string]struct {
		denials []time.Duration
		bans    [][2]time.Duration // when, for how long
		want    bool               // of the last one
	}{
		"right":                      {[]time.Duration{0, s, s, s, s, s, s, 9 * s}, [][2]time.Duration{{9 * s, 20 * s}}, true},
		"one too few":                {[]time.Duration{0, s, s, s, s, s, s}, [][2]time.Duration{{9 * s, 20 * s}}, false},
		"not within":                 {[]time.Duration{0, s, s, s, s, s, s, 9 * s}, [][2]time.Duration{{10 * s, 20 * s}}, false},
		"too long":                   {[]time.Duration{0, s, s, s, s, s, s, s}, [][2]time.Duration{{s, 20*s + 1}}, false},
		"while it lasts":             {[]time.Duration{0, 0, 0, 0, 0, 0, 0, 0}, [][2]time.Duration{{0, 20 * s}, {19 * s, s}}, true},
		"prolonged":                  {[]time.Duration{0, 0, 0, 0, 0, 0, 0, 0}, [][2]time.Duration{{0, 20 * s}, {19 * s, 2 * s}}, false},
		"after its end":              {[]time.Duration{0, 0, 0, 0, 0, 0, 0, 0}, [][2]time.Duration{{0, 20 * s}, {20 * s, 20 * s}}, false},
		"another one, too soon":      {[]time.Duration{0, 0, 0, 0, 0, 0, 0, 0, 25 * s}, [][2]time.Duration{{0, 20 * s}, {25 * s, 40*s + 1}}, false},
		"another one, for an eighth": {[]time.Duration{0, 0, 0, 0, 0, 0, 0, 0, 25 * s}, [][2]time.Duration{{0, 20 * s}, {25 * s, 40 * s}}, true},
		"forgotten":                  {[]time.Duration{0, 0, 0, 0, 0, 0, 0, 0, 220 * s}, [][2]time.Duration{{0, 20 * s}, {220 * s, 20 * s}}, false},
	} {
		var b banBook
		got, i := true, 0
		for _, ban := range tt.bans {
			for ; i < len(tt.denials) && tt.denials[i] <= ban[0]; i++ {
				b.denied(&p, tt.denials[i])
			}
			got = b.banned(&p, ban[0], ban[1])
		}
		if got != tt.want {
			t.Errorf("%s: right %t, want %t", name, got, tt.want)
		}
	}
}
