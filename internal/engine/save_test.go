package engine

import (
	"bytes"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// reloaded saves a limiter and loads it.
func reloaded(t *testing.T, l *Limiter, o LoadOptions) *Limiter {
	t.Helper()
	var file bytes.Buffer
	if err := l.Save(&file); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(&file, o)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// TestRestartRemembers: a client over its limit before a restart is over it afterwards, and one that is not
// yet a suspect continues where it was.
func TestRestartRemembers(t *testing.T) {
	t.Parallel()
	c := Config{Memory: limit.MinMemory, Rules: []limit.RuleConfig{{Name: "r", Rate: limit.Rate{N: 1, Per: time.Minute}, Burst: 100}}}
	l, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	r := l.Rules()[0]
	for range 1000 {
		r.Allow(r.BytesKey([]byte("attacker")))
	}
	for range 30 {
		r.Allow(r.BytesKey([]byte("client")))
	}
	next, err := reloaded(t, l, LoadOptions{}).With(c)
	if err != nil {
		t.Fatal(err)
	}
	r = next.Rules()[0]
	if d := r.Peek(r.BytesKey([]byte("attacker")), 1); d.Allowed || d.Stage != limit.StageTable {
		t.Errorf("the attacker after a restart: %+v", d)
	}
	for i := range 200 {
		if !r.Allow(r.BytesKey([]byte("client"))) {
			if i < 70 || i > 121 {
				t.Errorf("the client was admitted %d more, want 70 to 121", i)
			}
			return
		}
	}
	t.Error("the client is never denied")
}

// TestLoadedKnowsOtherLimits: of tiers, of those made live, and of named rates.
func TestLoadedKnowsOtherLimits(t *testing.T) {
	t.Parallel()
	clock := new(ManualClock)
	l, err := New(Config{Memory: limit.MinMemory, Clock: clock, Rules: []limit.RuleConfig{
		{Name: "t", Rate: limit.Rate{N: 1, Per: time.Minute}, Burst: 9, Tiers: []limit.Tier{{Rate: limit.Rate{N: 1, Per: time.Hour}, Burst: 7}, {Burst: 5}}},
		{Name: "n", Rate: limit.Rate{N: 10, Per: time.Second}, MaxRate: limit.Rate{N: 100, Per: time.Second}},
		{Name: "k", Rate: limit.Rate{N: 1, Per: time.Second}, Burst: 10, Thousandths: true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	clock.Set(time.Hour)
	live, err := l.rules[0].NewTier(limit.Tier{Rate: limit.Rate{N: 2, Per: time.Hour}, Burst: 6})
	if err != nil {
		t.Fatal(err)
	}
	// Each rule has taken something of its own of one client.
	limits := func(l *Limiter, live *Rule) []*Rule {
		r := l.rules
		return []*Rule{r[0], r[0].Tier(0), r[0].Tier(1), live, r[1], r[1].AtRate(limit.Rate{N: 3, Per: time.Hour}), r[2]}
	}
	key := []byte("client")
	for i, r := range limits(l, live) {
		if i != 4 { // whose bucket is that of the next
			r.Take(t.Context(), r.BytesKey(key), uint64(i+1)*r.CostScale()/2)
		}
	}
	loaded := reloaded(t, l, LoadOptions{Clock: new(ManualClock)})
	after := limits(loaded, loaded.rules[0].live.load()[0])
	for i, r := range limits(l, live) {
		if was, is := r.Peek(r.BytesKey(key), r.CostScale()), after[i].Peek(after[i].BytesKey(key), r.CostScale()); was != is {
			t.Errorf("limit %d: %+v, and loaded %+v", i, was, is)
		}
	}
	if loaded.Now() != time.Hour {
		t.Errorf("it is %v, and was an hour", loaded.Now())
	}
}

// TestRestartWithOtherLimits: a rule whose rate, burst, memory and neighbours have changed continues with the
// units that its clients had taken.
func TestRestartWithOtherLimits(t *testing.T) {
	t.Parallel()
	clock := new(ManualClock)
	l, err := New(Config{Memory: limit.MinMemory, Clock: clock, Rules: []limit.RuleConfig{withStrict(rule("r", 1, time.Minute, 100)), rule("gone", 1, time.Second, 5)}})
	if err != nil {
		t.Fatal(err)
	}
	clock.Set(time.Hour)
	r := l.Rules()[0]
	r.Take(t.Context(), r.BytesKey([]byte("client")), 90)
	for _, c := range []struct {
		burst uint64
		left  int64
	}{{100, 10}, {200, 110}, {95, 5}, {50, 0}} {
		next, err := reloaded(t, l, LoadOptions{Clock: new(ManualClock)}).With(Config{Memory: 4 * limit.MinMemory, Rules: []limit.RuleConfig{rule("new", 1, time.Second, 5), withStrict(rule("r", 7, time.Hour, c.burst))}})
		if err != nil {
			t.Fatal(err)
		}
		r := next.Rules()[1]
		if d := r.Peek(r.BytesKey([]byte("client")), 1); d.Remaining != c.left {
			t.Errorf("burst %d: %+v, want %d left", c.burst, d, c.left)
		}
	}
}
