package overrides

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

// reload has the set follow the rules of another configuration, with that much memory.
func (w *world) reload(rules []policy.RuleSpec, memory int64, refused error) error {
	w.Helper()
	was := w.set.on.limiter
	set := &policy.Settings{Rules: rules}
	lim, err := was.With(fastlimit.Config{Rules: set.Limits()})
	if err != nil {
		w.Fatal(err)
	}
	e, err := policy.New(lim, *set)
	if err != nil {
		w.Fatal(err)
	}
	return w.set.Follow(Config{Policy: set, Limiter: lim, Engine: e, Memory: memory}, func(e *policy.Engine, _ []*fastlimit.Rule) error {
		if refused == nil {
			w.engine.Store(e)
		}
		return refused
	})
}

// Who has used up the burst of an override has none again after reloads. Without memory, or
// without the rule, the override waits until there is.
func TestFollowKeepsBuckets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, newFlaky(), nil)
		rules := rulesOfFile()
		w.put(`{"rule":"ip","key":"192.0.2.1","burst":5}`, 200)
		w.wants("with the override", "192.0.2.1", 5)
		for range 2 {
			if err := w.reload(rules, 1<<20, nil); err != nil {
				t.Fatal(err)
			}
			w.wants("after a reload", "192.0.2.1", 0)
		}

		no, before := errors.New("the server refuses it"), w.engine.Load()
		if err := w.reload(rules[1:], 1<<20, no); !errors.Is(err, no) || w.engine.Load() != before {
			t.Errorf("a reload that the server refuses: %v", err)
		}
		w.wants("after a refused reload", "192.0.2.1", 0)

		for _, tt := range []struct {
			what         string
			rules        []policy.RuleSpec
			memory       int64
			want, unused int
		}{
			{"without memory", rules, 1, 2, 1}, // the rule's own burst
			{"with memory", rules, 1 << 20, 5, 0},
			{"without the rule", rules[1:], 1 << 20, 10, 1},
			{"with the rule", rules, 1 << 20, 5, 0},
		} {
			if err := w.reload(tt.rules, tt.memory, nil); err != nil {
				t.Fatalf("%s: %v", tt.what, err)
			}
			w.wants(tt.what, "192.0.2.1", tt.want)
			if got := w.set.Stats().Unused; got != tt.unused {
				t.Errorf("%s: %d overrides are not in force, want %d", tt.what, got, tt.unused)
			}
		}
	})
}
