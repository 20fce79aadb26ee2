package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/bucket/memstore"
	"github.com/fastlimit/fastlimit/limit"
)

// guest is one request of a random stream, in µs; left < 0: it stays.
type guest struct {
	key        int
	came, left int64
	cost       int64
	by         int // by which of the limits that the client has in turn
}

// allowance is a limit: T and B·T in µs.
type allowance struct{ unit, limit int64 }

// doorman is the oracle: the bucket of one client with its line, in integers, one tick
// for each µs. It shares nothing with what it judges.
type doorman struct {
	limits []allowance
	most   int64 // max_wait in µs
	perKey int
	full   int64 // until when the bucket is busy
	line   []int // guests
}

// needs is what a guest takes of the bucket, and how full it may be then.
func (o *doorman) needs(g *guest) (cost, limit int64) {
	l := o.limits[g.by]
	return g.cost * l.unit, l.limit
}

// advance lets in those whose time has come by now.
func (o *doorman) advance(now int64, all []guest, in map[int]int64, last *int64) {
	for len(o.line) > 0 {
		g := o.line[0]
		cost, limit := o.needs(&all[g])
		at := max(o.full+cost-limit, *last)
		if at > now {
			return
		}
		in[g], *last = at, at
		o.full = max(o.full, at) + cost
		o.line = o.line[1:]
	}
}

// play returns when each guest that is let in is let in.
func (o *doorman) play(all []guest, key int) map[int]int64 {
	in, last := map[int]int64{}, int64(0)
	type event struct {
		at    int64
		guest int
		left  bool
	}
	var events []event
	for i, g := range all {
		if g.key == key {
			events = append(events, event{g.came, i, false})
			if g.left >= 0 {
				events = append(events, event{g.left, i, true})
			}
		}
	}
	for len(events) > 0 {
		e := 0
		for i := range events {
			if events[i].at < events[e].at {
				e = i
			}
		}
		ev := events[e]
		events = append(events[:e], events[e+1:]...)
		o.advance(ev.at, all, in, &last)
		if ev.left {
			for i, g := range o.line {
				if g == ev.guest {
					o.line = append(o.line[:i:i], o.line[i+1:]...)
					last = max(last, ev.at)
					break
				}
			}
			continue
		}
		level, wait := max(o.full-ev.at, 0), int64(0)
		for _, g := range append(slices.Clip(o.line), ev.guest) {
			cost, limit := o.needs(&all[g])
			level += cost
			wait = max(wait, level-limit) // nobody is let in before those ahead
		}
		fits := len(o.line) == 0 && wait <= 0
		if cost, limit := o.needs(&all[ev.guest]); cost <= limit && (fits || wait <= o.most && len(o.line) < o.perKey) {
			o.line = append(o.line, ev.guest)
			last = max(last, ev.at)
			o.advance(ev.at, all, in, &last)
		}
	}
	o.advance(1<<60, all, in, &last)
	return in
}

// stream draws guests. No two events are at the same µs, and none when somebody is let in
// but by chance.
func stream(rng *rand.Rand, n, keys int, unit, most int64, costs int64) []guest {
	all, now, used := make([]guest, n), int64(1), map[int64]bool{}
	odd := func(at int64) int64 {
		for used[at] {
			at++
		}
		used[at] = true
		return at
	}
	for i := range all {
		if rng.IntN(4) > 0 {
			now += rng.Int64N(2 * unit)
		}
		if rng.IntN(50) == 0 {
			now += rng.Int64N(20 * unit)
		}
		now = odd(now + 1)
		all[i] = guest{key: rng.IntN(keys), came: now, left: -1, cost: 1 + rng.Int64N(costs)}
		if rng.IntN(4) == 0 {
			all[i].left = odd(now + 1 + rng.Int64N(most))
		}
	}
	return all
}

// answered is what became of a guest.
type answered struct {
	at int64
	limit.Decision
}

// comeAndGo has n requests come and leave at their times in µs, in the time of a bubble; left < 0:
// it stays. It returns what became of each, and when.
func comeAndGo(t *testing.T, n int, times func(i int) (came, left int64), ask func(ctx context.Context, i int) limit.Decision) []answered {
	out, start := make([]answered, n), time.Now()
	p := newParty()
	for i := range n {
		came, left := times(i)
		p.wg.Go(func() {
			time.Sleep(time.Duration(came)*time.Microsecond - time.Since(start))
			ctx := t.Context()
			if left >= 0 {
				var cancel context.CancelFunc
				// Half a µs later, so that it is clear who is first.
				ctx, cancel = context.WithTimeout(ctx, time.Duration(left-came)*time.Microsecond+500*time.Nanosecond)
				defer cancel()
			}
			d := ask(ctx, i)
			out[i] = answered{int64(time.Since(start) / time.Microsecond), d}
		})
	}
	p.wg.Wait()
	return out
}

// host plays the guests by real waiting, at the limits that they come by.
func host(t *testing.T, all []guest, limits ...*Rule) []answered {
	return comeAndGo(t, len(all), func(i int) (came, left int64) { return all[i].came, all[i].left }, func(ctx context.Context, i int) limit.Decision {
		g := &all[i]
		r := limits[g.by]
		return r.Wait(ctx, r.BytesKey(fmt.Append(nil, g.key)), uint64(g.cost))
	})
}

// Everyone is let in exactly when the oracle says, and nobody else is, whatever others
// ask for: order, P1 and P2 with requests that wait, of several costs, fractions in every
// other stream, and leave.
func TestWaitExact(t *testing.T) {
	t.Parallel()
	var sum waitSum
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			perSecond := []uint64{1, 10, 100, 1000}[rng.IntN(4)]
			burst := 1 + rng.Uint64N(8)
			unit := int64(1_000_000 / perSecond)
			most := 1 + rng.Int64N(unit*12)
			rule := waitRule("a", perSecond, burst, time.Duration(most)*time.Microsecond)
			scale := []int64{1, 1000}[seed&1] // costs in thousandths, whose part is a whole number of µs too
			rule.Thousandths = scale > 1
			lim := waiting(t, Config{Rules: []limit.RuleConfig{rule}, Wait: limit.WaitLimits{PerKey: 1 + rng.IntN(8)}})
			all := stream(rng, 300, 3, unit, most, int64(burst)*scale+1)
			out := host(t, all, lim.rules[0])
			for key := range 3 {
				o := doorman{limits: []allowance{{unit / scale, int64(burst) * unit}}, most: most, perKey: lim.waitLimits.PerKey}
				if err := o.judge(all, out, key); err != nil {
					t.Errorf("seed %d: %d/s, %d, wait %d µs: %v", seed, perSecond, burst, most, err)
					return
				}
			}
			sum.add(t, lim)
		})
	}
	if sum.Admitted < 1000 || sum.Left < 100 || sum.Refused < 100 {
		t.Errorf("too little has happened: %+v", sum)
	}
}

// judge reports the first guest of a client that was not answered as the oracle says.
func (o *doorman) judge(all []guest, out []answered, key int) error {
	in := o.play(all, key)
	for i, g := range all {
		if g.key != key {
			continue
		}
		at, want := in[i]
		if g.left >= 0 && at > g.left {
			want = false
		}
		if got := &out[i]; got.Allowed != want || want && (got.at < at || got.at > at+1) {
			return fmt.Errorf("guest %d %+v: %+v, want %t at %d", i, g, *got, want, at)
		}
	}
	return nil
}

// waitSum sums up over streams what happened in them.
type waitSum struct{ limit.WaitStats }

func (sum *waitSum) add(t *testing.T, lim *Limiter) {
	s := lim.rules[0].Stats().Waits
	if s.Waiting != 0 || lim.waiters.Slots() != 0 {
		t.Errorf("%+v and %d places after all have gone", s, lim.waiters.Slots())
	}
	sum.Admitted, sum.Left, sum.Denied, sum.Refused = sum.Admitted+s.Admitted, sum.Left+s.Left, sum.Denied+s.Denied, sum.Refused+s.Refused
}

// With filter and sketch, rates of several ticks a µs, a store that takes its time, and its
// clock stepping: what is admitted conforms to P2 (and the store's slack), in order at each node.
func TestWaitBounds(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Millisecond
	var sum waitSum
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 2))
			rate := limit.Rate{N: []uint64{7, 30, 300}[rng.IntN(3)], Per: time.Second}
			burst := 1 + rng.Uint64N(30)
			rule := limit.RuleConfig{Name: "a", Rate: rate, Burst: burst, MaxWait: time.Duration(1+rng.IntN(3000)) * time.Millisecond}
			c := Config{Rules: []limit.RuleConfig{rule}}
			if seed%2 > 0 {
				store := unsteadyStore(seed, seed%4 > 1, timeout/2)
				defer func() { _ = store.Close(context.Background()) }()
				c.Store, c.StoreTimeout = store, timeout
			}
			scale := []int64{1, 1000}[seed/4&1]
			c.Rules[0].Thousandths = scale > 1
			lim := waiting(t, c)
			unit := int64(time.Second) / int64(time.Microsecond) / int64(rate.N)
			all := stream(rng, 300, 2, unit, rule.MaxWait.Microseconds(), 3*scale)
			out := host(t, all, lim.rules[0])
			theta := *lim.rules[0].config.EscalateAt
			bound := (1+theta)*float64(burst) + 1 + 6 + timeout.Seconds()*float64(rate.N) // C: a few of up to 3 units
			for key := range 2 {
				level, before, admitted := 0.0, int64(0), 0
				for _, i := range byTime(out, all, key) {
					level = max(0, level-float64(out[i].at-before)*float64(rate.N)/1e6) + float64(all[i].cost)/float64(scale)
					before = out[i].at
					if admitted++; level > bound {
						t.Errorf("seed %d: %v, %d: level %v after %d, bound %v", seed, rate, burst, level, i, bound)
					}
				}
				if admitted == 0 {
					t.Errorf("seed %d: nobody was admitted", seed)
				}
			}
			for i := range out {
				wait := out[i].at - all[i].came
				if most := (rule.MaxWait + waitSlack + timeout).Microseconds() + 1; wait > most {
					t.Errorf("seed %d: guest %d waited %d µs, of %d", seed, i, wait, most)
				}
			}
			sum.add(t, lim)
		})
	}
	if sum.Admitted < 500 || sum.Left < 50 {
		t.Errorf("too little has happened: %+v", sum)
	}
}

// byTime are the guests of a client that were let in, in that order.
func byTime(out []answered, all []guest, key int) (in []int) {
	for i := range out {
		if all[i].key != key || !out[i].Allowed {
			continue
		}
		j := len(in)
		for j > 0 && out[in[j-1]].at > out[i].at {
			j--
		}
		in = append(in[:j], append([]int{i}, in[j:]...)...)
	}
	return in
}

// unsteadyStore takes up to most for each operation. With steps its clock jumps now and
// then, by up to 100 ms back or forth.
func unsteadyStore(seed uint64, steps bool, most time.Duration) *slowStore {
	var mu sync.Mutex
	rng, start, ahead := rand.New(rand.NewPCG(seed, 3)), time.Now(), int64(1_000_000)
	s := (*slowStore)(nil).sibling()
	s.Store = memstore.New(memstore.Config{Now: func() uint64 {
		mu.Lock()
		defer mu.Unlock()
		if steps && rng.IntN(100) == 0 {
			ahead = 1_000_000 + rng.Int64N(100_000)
		}
		return uint64(time.Since(start).Microseconds() + ahead)
	}})
	s.delay = func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(rng.Int64N(int64(most)))
	}
	return s
}
