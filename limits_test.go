package fastlimit

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

// phases are the limits that a rule has one after the other.
type phases struct {
	clock   *ManualClock
	rnd     *rand.Rand
	now     time.Duration
	limiter *Limiter
	rule    *Rule
	config  Config
}

func randomLimit(rnd *rand.Rand) Config {
	theta := rnd.Float64()
	r := RuleConfig{
		Name: "a", KeyKind: "x", Rate: Rate{N: 1 + rnd.Uint64N(100), Per: []time.Duration{time.Second, time.Minute, 7 * time.Second}[rnd.IntN(3)]},
		Burst: 1 + rnd.Uint64N(40), EscalateAt: &theta, Strict: rnd.IntN(6) == 0,
	}
	if r.Strict {
		r.EscalateAt = nil
	}
	c := Config{Rules: []RuleConfig{r}, Memory: (1 + rnd.Int64N(8)) * MinMemory, Secret: [32]byte{1}}
	if rnd.IntN(2) == 0 { // others take their share of the memory
		c.Rules = append(c.Rules, RuleConfig{Name: "b", Rate: Rate{N: 1 + rnd.Uint64N(1000), Per: time.Second}, Burst: 1 + rnd.Uint64N(1000)})
	}
	return c
}

func newPhases(tb testing.TB, seed uint64) *phases {
	tb.Helper()
	p := &phases{clock: new(ManualClock), rnd: rand.New(rand.NewPCG(seed, 18))}
	p.config = randomLimit(p.rnd)
	p.config.Clock = p.clock
	p.limiter = newLimiterT(tb, p.config)
	p.rule = p.limiter.rules[0]
	return p
}

func newLimiterT(tb testing.TB, c Config) *Limiter {
	tb.Helper()
	l, err := New(c)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// change gives the rule another limit.
func (p *phases) change(tb testing.TB) {
	tb.Helper()
	p.config = randomLimit(p.rnd)
	p.limiter = mustWith(tb, p.limiter, p.config)
	p.rule = p.limiter.rules[0]
}

func (p *phases) pass(d time.Duration) {
	p.now += d
	p.clock.Set(p.now)
}

func (p *phases) theta() float64 {
	c := p.rule.Config()
	if c.Strict {
		return 0
	}
	return *c.EscalateAt * float64(c.Burst)
}

// account is what a client has been admitted, in units that leak at the rate of the rule.
// Exact.
type account struct {
	level *big.Rat
	at    time.Duration
}

func (a *account) drain(now time.Duration, r Rate) {
	leak := new(big.Rat).Mul(big.NewRat(int64(r.N), int64(r.Per)), big.NewRat(int64(now-a.at), 1)) //nolint:gosec // small
	if a.level.Sub(a.level, leak); a.level.Sign() < 0 {
		a.level.SetInt64(0)
	}
	a.at = now
}

func (a *account) float() float64 { f, _ := a.level.Float64(); return f }

// Limits change in the middle, tables too, and requests in flight go on by the rule before.
// Whoever has room by what he was admitted is admitted (P1). What anybody is admitted is
// bounded (P2) by the new burst, and twice by what the sketch lets pass by any of the limits so
// far: what is above a full bucket at a change is cut off here with no regard to who let it pass.
func TestSandwichAcrossLimits(t *testing.T) {
	t.Parallel()
	histories, steps := 2000, 250
	if testing.Short() {
		histories = 200
	}
	denied, unchecked := 0, 0
	for seed := range uint64(histories) { //nolint:gosec // positive
		p := newPhases(t, seed)
		clients := make([]account, 6)
		for i := range clients {
			clients[i].level = new(big.Rat)
		}
		most, changes := p.theta(), 0
		var last *Rule // whose requests may be in flight
		const inFlight = 2
		late := make([]int, len(clients))
		for range steps {
			c := p.rule.Config()
			switch p.rnd.IntN(30) {
			case 0:
				for i := range clients {
					clients[i].drain(p.now, c.Rate)
				}
				last = p.rule
				p.change(t)
				changes++
				most = max(most, p.theta())
				c = p.rule.Config()
				for i := range clients {
					late[i] = 0
					if room := new(big.Rat).SetFloat64(float64(c.Burst) + most + 1); clients[i].level.Cmp(room) > 0 {
						clients[i].level.Set(room)
					}
				}
			case 1:
				p.limiter.Advance()
			case 2:
				p.pass(5 * time.Second)
			default:
				p.pass(time.Duration(p.rnd.Int64N(int64(c.Rate.Per/time.Duration(c.Rate.N)))) / 4)
			}
			i := p.rnd.IntN(1 + p.rnd.IntN(len(clients))) // some send more
			n, a := 1+p.rnd.Uint64N(3), &clients[i]
			by := p.rule
			if last != nil && late[i] < inFlight && p.rnd.IntN(20) == 0 {
				by = last
				late[i]++
			}
			a.drain(p.now, c.Rate)
			v := by.Take(t.Context(), by.BytesKey([]byte{byte(i)}), n)
			fits := new(big.Rat).Add(a.level, new(big.Rat).SetUint64(n)).Cmp(new(big.Rat).SetUint64(c.Burst)) <= 0
			if !v.Allowed && fits && by == p.rule {
				t.Fatalf("seed %d, %d changes: %d units of client %d are denied at level %.3f of burst %d", seed, changes, n, i, a.float(), c.Burst)
			}
			if !v.Allowed {
				denied++
				continue
			}
			if v.Stage != StageExact {
				unchecked++
			}
			a.level.Add(a.level, new(big.Rat).SetUint64(n))
			if bound := float64(c.Burst) + 2*(most+1) + 3*inFlight + 0.001; by == p.rule && a.float() > bound {
				t.Fatalf("seed %d, %d changes: client %d has %.3f units, at most %.3f at a burst of %d", seed, changes, i, a.float(), bound, c.Burst)
			}
		}
		if s := p.rule.Stats(); s.Evictions > 0 {
			t.Fatalf("seed %d: %d evictions: the table is too small for the test", seed, s.Evictions)
		}
	}
	if denied < histories || unchecked < histories {
		t.Errorf("%d denied, %d not checked: nothing is tried", denied, unchecked)
	}
	t.Logf("%d decisions, %d denied, %d not checked", histories*steps, denied, unchecked)
}

// Who was at the limit has the same level in units by another
// limit, at most a full bucket; a looser one lets it go on at once.
func TestLevelAcrossChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate, burst   uint64 // from 10/s, 20
		settled       bool
		memory        int64
		remaining     int64
		wait, tooLong time.Duration
	}{
		{10, 20, false, 4, 0, 100 * time.Millisecond, 0},
		{10, 50, false, 4, 30, 0, 0},                    // 20 of 50
		{10, 5, false, 4, 0, 100 * time.Millisecond, 0}, // full
		{1, 20, false, 4, 0, time.Second, 0},
		{1000, 20, false, 4, 0, time.Millisecond, 0},
		{1, 5, true, 4, 0, time.Second, 0},
		{10, 50, true, 4, 30, 0, 0},
		{10, 50, true, 1, 30, 0, 0},
		{10, 50, true, 64, 30, 0, 0},
	} {
		name := fmt.Sprintf("%+v", c)
		clock := new(ManualClock)
		config := func(n, burst uint64, memory int64) Config {
			return Config{Rules: []RuleConfig{rule("a", n, time.Second, burst)}, Memory: memory * MinMemory, Clock: clock}
		}
		l := newLimiterT(t, config(10, 20, 4))
		r := l.rules[0]
		key := r.BytesKey([]byte("k"))
		for range 100 {
			r.Take(t.Context(), key, 1)
		}
		l = mustWith(t, l, config(c.rate, c.burst, c.memory))
		r = l.rules[0]
		v := r.Peek(key, 1)
		if v.Remaining != c.remaining && v.Remaining != c.remaining-1 || v.Allowed != (c.remaining > 0) || v.RetryAfter != c.wait {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// What was given back by the rule before is given back, though the new one had taken it over.
func TestRefundAcrossChanges(t *testing.T) {
	t.Parallel()
	clock := new(ManualClock)
	config := func(n, burst uint64) Config {
		r := rule("a", n, time.Second, burst)
		r.Strict = true
		return Config{Rules: []RuleConfig{r}, Clock: clock}
	}
	l := newLimiterT(t, config(3, 10))
	was := l.rules[0]
	key := was.BytesKey([]byte("k"))
	was.Take(t.Context(), key, 10)
	l = mustWith(t, l, config(7, 20))
	is := l.rules[0]
	if v := is.Take(t.Context(), key, 10); !v.Allowed {
		t.Fatalf("%+v", v)
	}
	was.Refund(key, 10)
	if v := is.Take(t.Context(), key, 10); !v.Allowed {
		t.Errorf("10 of 20 are left, and 10 do not fit: %+v", v)
	}
	is.Reset(key)
	if v := is.Take(t.Context(), key, 20); !v.Allowed {
		t.Errorf("after a reset: %+v", v)
	}
}

// Counts of a window stay if its period does.
func TestWindowsAcrossChanges(t *testing.T) {
	t.Parallel()
	for _, a := range []Algorithm{FixedWindow, SlidingWindow} {
		for _, c := range []struct {
			per   time.Duration
			burst uint64
			want  bool
		}{{time.Minute, 10, false}, {time.Minute, 5, false}, {time.Minute, 30, true}, {time.Hour, 10, true}} {
			config := func(per time.Duration, n uint64) Config {
				r := rule("a", n, per, n)
				r.Algorithm = a
				return Config{Rules: []RuleConfig{r}, Clock: new(ManualClock)}
			}
			first := config(time.Minute, 10)
			l := newLimiterT(t, first)
			key := l.rules[0].BytesKey([]byte("k"))
			for range 20 {
				l.rules[0].Take(t.Context(), key, 1)
			}
			next := config(c.per, c.burst)
			next.Clock = nil
			l = mustWith(t, l, next)
			if v := l.rules[0].Take(t.Context(), l.rules[0].BytesKey([]byte("k")), 1); v.Allowed != c.want {
				t.Errorf("%v, %d per %v: %+v", a, c.burst, c.per, v)
			}
		}
	}
}
