package server

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/testkit/streams"
	"github.com/fastlimit/fastlimit/policy"
)

// tracked is perIP with clients that are ranked.
func tracked(t *testing.T) func(*Config) {
	return func(c *Config) {
		set := perIP()
		lim, err := fastlimit.New(fastlimit.Config{Memory: 4 << 20, TopTalkers: 16, Rules: set.Limits()})
		if err != nil {
			t.Fatal(err)
		}
		engine, err := policy.New(lim, set)
		if err != nil {
			t.Fatal(err)
		}
		c.Limiter, c.Engine = lim, engine
	}
}

// Whoever is denied is explained, named among the top talkers, and admitted after a reset.
func TestExplain(t *testing.T) {
	t.Parallel()
	s := start(t, perIP(), tracked(t))
	if got := overSocket(t, s.addr, strings.Repeat(streams.Plain, 4)); !slices.Equal(got, []int{200, 200, 200, 429}) {
		t.Fatalf("answers %v", got)
	}
	for query, want := range map[string]string{
		"key=127.0.0.1":                `"allowed":false`,
		"key=127.0.0.1&rule=per-ip":    `"allowed":false`,
		"key=127.0.0.1&path=/x":        `"allowed":false`,
		"key=198.51.100.1":             `"allowed":true`,
		"key=127.0.0.1&rule=elsewhere": "elsewhere",
	} {
		if body := string(readAll(t, get(t, "http://"+s.admin+"/v1/explain?"+query))); !strings.Contains(body, want) {
			t.Errorf("%s: %s, want %s", query, body, want)
		}
	}
	eventually(t, func() bool { return slices.Equal(s.TalkerNames("per-ip"), []string{"4\x7f\x00\x00\x01"}) })
	if others := s.TalkerNames("other"); others != nil {
		t.Errorf("top talkers of a rule that is not there: %q", others)
	}
	resp, err := http.Post("http://"+s.admin+"/v1/reset", "application/json", strings.NewReader(`{"rule":"per-ip","key":["127.0.0.1"]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		t.Errorf("%d %s", resp.StatusCode, b)
	}
	if got := overSocket(t, s.addr, streams.Plain); got[0] != 200 {
		t.Errorf("after the reset: %v", got)
	}
}

// liveRules say for how long a rule is changed.
type liveRules struct{ LiveRules }

func (liveRules) List() any                 { return nil }
func (liveRules) Left(string) time.Duration { return time.Hour }

// Other rules take over what was counted, and everything else stays.
func TestSetRules(t *testing.T) {
	t.Parallel()
	s := start(t, perIP(), tracked(t), func(c *Config) { c.Rules = liveRules{} })
	overSocket(t, s.addr, strings.Repeat(streams.Plain, 4))
	set := perIP()
	set.Rules[0].Limit.Burst = 5
	next, err := s.config().Limiter.With(fastlimit.Config{Memory: 4 << 20, TopTalkers: 16, Rules: set.Limits()})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := policy.New(next, set)
	if err != nil {
		t.Fatal(err)
	}
	s.SetRules(next, engine, nil, nil)
	if got := overSocket(t, s.addr, strings.Repeat(streams.Plain, 3)); !slices.Equal(got, []int{200, 200, 429}) {
		t.Errorf("a burst of 5, of which 3 were used: %v", got)
	}
	eventually(t, func() bool { return len(s.TalkerNames("per-ip")) == 1 })
	if body := string(readAll(t, get(t, "http://"+s.admin+"/v1/info"))); !strings.Contains(strings.ReplaceAll(body, " ", ""), `"live_seconds":3600`) {
		t.Errorf("a rule that is changed for an hour: %s", body)
	}
}
