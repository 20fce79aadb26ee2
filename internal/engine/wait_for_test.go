package engine

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/exact"
	"github.com/fastlimit/fastlimit/limit"
)

// bell is a waiter that records its calls.
type bell struct {
	ctx  context.Context
	rung string
}

func (b *bell) BeginWait() context.Context {
	b.rung += "begin "
	return b.ctx
}

func (b *bell) EndWait() { b.rung += "end " }

// A waiter is called once when it waits, whatever happens to it and however many queues it waits in, and not
// if it has no slot. From then on its ctx counts.
func TestWaitFor(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, c Config) {
		c.Rules, c.Wait.PerKey = []limit.RuleConfig{waitRule("a", 1, 1, 5*time.Second), waitRule("b", 1, 1, 5*time.Second)}, 2
		lim := waiting(t, c)
		gone, leave := context.WithCancel(t.Context())
		bells := [5]bell{{ctx: t.Context()}, {ctx: t.Context()}, {ctx: gone}, {ctx: t.Context()}, {ctx: t.Context()}}
		p := newParty()
		ask := func(i int, rules ...int) {
			charges := make([]Charge, 0, 2)
			for _, k := range rules {
				r := lim.rules[k]
				charges = append(charges, Charge{r, r.BytesKey([]byte("x")), 1})
			}
			p.ask(i, func() limit.Decision {
				d, _ := lim.WaitAllFor(t.Context(), &bells[i], charges, time.Now())
				return d
			})
		}
		ask(0, 0)    // is admitted
		ask(1, 0, 1) // waits in a, and has taken from b
		ask(2, 0)    // waits, and leaves
		ask(3, 0)    // has no place
		time.Sleep(500 * time.Millisecond)
		ask(4, 1) // waits in b
		leave()
		p.wg.Wait()
		for i, want := range [...]string{"", "begin end ", "begin end ", "", "begin end "} {
			if bells[i].rung != want {
				t.Errorf("guest %d: %q, want %q", i, bells[i].rung, want)
			}
		}
		slices.Sort(p.in)
		if !slices.Equal(p.in, []int{0, 1, 4}) || p.out[2] != exact.Abandoned() {
			t.Errorf("in %v at %v, out %v", p.in, p.at, p.out)
		}
	})
}

// A client that has another limit of the rule waits by that one, in a line of its own, and
// is counted with the rule; so it is after a reload.
func TestWaitInTier(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, c Config) {
		rule := waitRule("a", 1, 1, 2*time.Second)
		rule.Tiers = []limit.Tier{{Rate: limit.Rate{N: 10, Per: time.Second}, Burst: 1}}
		c.Rules = []limit.RuleConfig{rule}
		lim := waiting(t, c)
		c.Memory = limit.MinMemory
		next, err := lim.With(c)
		if err != nil {
			t.Fatal(err)
		}
		p := newParty()
		for i := range 9 {
			r := []*Limiter{lim, next}[i%2].rules[0]
			if i < 6 {
				r = r.Tier(0)
			}
			p.ask(i, func() limit.Decision { return r.Wait(t.Context(), r.BytesKey([]byte{byte(i / 6)}), 1) })
		}
		if s, want := next.rules[0].Stats().Waits, (limit.WaitStats{Waiting: 7}); s != want || lim.rules[0].Tier(0).Stats().Waits != want {
			t.Errorf("%+v, want %+v", s, want)
		}
		p.wg.Wait()
		if want := []int{0, 6, 1, 2, 3, 4, 5, 7, 8}; !slices.Equal(p.in, want) || (p.at[6]-500*time.Millisecond).Abs() > time.Millisecond*2 {
			t.Errorf("in %v at %v, want %v", p.in, p.at, want)
		}
		if s, want := lim.rules[0].Stats().Waits, (limit.WaitStats{Admitted: 7}); s != want {
			t.Errorf("%+v, want %+v", s, want)
		}
	})
}

func TestWaitForNeedsTheMachinesClock(t *testing.T) {
	t.Parallel()
	lim := waiting(t, Config{Rules: []limit.RuleConfig{waitRule("a", 1, 1, time.Second)}, Clock: new(ManualClock)})
	defer func() {
		if p, _ := recover().(string); !strings.HasPrefix(p, "BUG: ") {
			t.Errorf("%v", p)
		}
	}()
	lim.WaitAllFor(t.Context(), &bell{ctx: t.Context()}, nil, time.Now())
}
