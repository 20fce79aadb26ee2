package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// visitor is one request that several rules apply to, in µs; left < 0: it stays.
type visitor struct {
	came, left int64
	keys       []string // by each rule
	cost       int64
}

// desk is the bucket of one client by one rule, with its line: times in µs, a unit is cost·unit.
type desk struct {
	allowance

	most int64 // max_wait
	full int64 // until when the bucket is busy
	due  int64 // when the first in line is asked next
	line []int // visitors
}

// hall is the oracle: the desks of all rules, each on its own. It shares nothing with what it judges.
type hall struct {
	all    []visitor
	rules  []desk // without state
	perKey int
	desks  map[string]*desk
	owes   map[int]int      // of visitors that wait, the desks that have not charged them
	paid   map[int][]string // the desks that have
	in     map[int]int64
}

func (h *hall) desk(rule int, key string) (*desk, string) {
	name := fmt.Sprint(rule, key)
	d := h.desks[name]
	if d == nil {
		fresh := h.rules[rule]
		d = &fresh
		h.desks[name] = d
	}
	return d, name
}

// charge takes the units of a visitor, which is admitted if no desk is left.
func (h *hall) charge(d *desk, name string, i int, now int64) {
	d.full = max(d.full, now) + h.all[i].cost*d.unit
	h.paid[i] = append(h.paid[i], name)
	if h.owes[i]--; h.owes[i] == 0 {
		h.in[i] = now
		delete(h.owes, i)
	}
}

// ask sets when the first in the queue is asked next.
func (h *hall) ask(d *desk, now int64) {
	if len(d.line) > 0 {
		d.due = max(now, d.full+h.all[d.line[0]].cost*d.unit-d.limit)
	}
}

// next is the desk whose first visitor is asked next.
func (h *hall) next() (name string, d *desk) {
	for n, at := range h.desks {
		if len(at.line) > 0 && (d == nil || at.due < d.due || at.due == d.due && n < name) {
			name, d = n, at
		}
	}
	return name, d
}

func (h *hall) advance(now int64) {
	for {
		name, d := h.next()
		if d == nil || d.due > now {
			return
		}
		i, at := d.line[0], d.due
		d.line = d.line[1:]
		h.charge(d, name, i, at)
		h.ask(d, at)
	}
}

// comes decides at once, or queues the visitor at each desk that it does not fit.
func (h *hall) comes(i int) {
	v := &h.all[i]
	var waits, fits []int
	for rule, key := range v.keys {
		d, _ := h.desk(rule, key)
		level := max(d.full-v.came, 0)
		for _, j := range append(slices.Clip(d.line), i) {
			level += h.all[j].cost * d.unit
		}
		switch {
		case v.cost*d.unit > d.limit:
			return
		case len(d.line) == 0 && level <= d.limit:
			fits = append(fits, rule)
		case d.most == 0 || level-d.limit > d.most || len(d.line) >= h.perKey:
			return
		default:
			waits = append(waits, rule)
		}
	}
	h.owes[i] = len(v.keys)
	for _, rule := range fits {
		d, name := h.desk(rule, v.keys[rule])
		h.charge(d, name, i, v.came)
	}
	for _, rule := range waits {
		d, _ := h.desk(rule, v.keys[rule])
		if d.line = append(d.line, i); len(d.line) == 1 {
			h.ask(d, v.came)
		}
	}
}

// leaves gives everything back.
func (h *hall) leaves(i int) {
	if h.owes[i] == 0 {
		return
	}
	now := h.all[i].left
	delete(h.owes, i)
	for rule, key := range h.all[i].keys {
		d, name := h.desk(rule, key)
		if slices.Contains(h.paid[i], name) {
			d.full -= min(max(d.full-now, 0), h.all[i].cost*d.unit)
		} else if at := slices.Index(d.line, i); at >= 0 {
			if d.line = slices.Delete(d.line, at, at+1); at == 0 {
				h.ask(d, now)
			}
		}
	}
}

// play returns when each admitted visitor is admitted.
func (h *hall) play() map[int]int64 {
	h.desks, h.owes, h.paid, h.in = map[string]*desk{}, map[int]int{}, map[int][]string{}, map[int]int64{}
	var gone []int // in the order of leaving
	for i := range h.all {
		if h.all[i].left >= 0 {
			gone = append(gone, i)
		}
	}
	slices.SortFunc(gone, func(a, b int) int { return int(h.all[a].left - h.all[b].left) })
	for i := range h.all {
		for len(gone) > 0 && h.all[gone[0]].left < h.all[i].came {
			h.advance(h.all[gone[0]].left)
			h.leaves(gone[0])
			gone = gone[1:]
		}
		h.advance(h.all[i].came)
		h.comes(i)
	}
	for _, i := range gone {
		h.advance(h.all[i].left)
		h.leaves(i)
	}
	h.advance(1 << 60)
	return h.in
}

// Each rule decides as if there were no other: requests of two or three, some of which let
// wait and some do not, are let in exactly when the oracle says, in the order of each line,
// and have taken nothing if they leave.
func TestRulesWaitEachByItself(t *testing.T) {
	t.Parallel()
	waited, left, denied := 0, 0, 0
	for seed := range uint64(80) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			h := hall{perKey: 2 + rng.IntN(8)}
			c := Config{Wait: limit.WaitLimits{PerKey: h.perKey}}
			for i := range 2 + rng.IntN(2) {
				perSecond, burst := []uint64{2, 10, 50}[rng.IntN(3)], 1+rng.Uint64N(4)
				unit := int64(1_000_000 / perSecond)
				most := rng.Int64N(unit * 10)
				if rng.IntN(4) == 0 {
					most = 0
				}
				h.rules = append(h.rules, desk{allowance: allowance{unit, int64(burst) * unit}, most: most})
				c.Rules = append(c.Rules, waitRule(string(rune('a'+i)), perSecond, burst, time.Duration(most)*time.Microsecond))
			}
			lim := waiting(t, c)
			for _, g := range stream(rng, 200, 3, 100_000, 500_000, 2) {
				keys := []string{fmt.Sprint(g.key)} // the first rule has a client of its own, the last is for all
				for len(keys) < len(h.rules)-1 {
					keys = append(keys, fmt.Sprint(g.key%2))
				}
				h.all = append(h.all, visitor{g.came, g.left, append(keys, "all"), g.cost})
			}
			out := visit(t, lim, h.all)
			in := h.play()
			for i, v := range h.all {
				at, want := in[i]
				if got := out[i]; got.Allowed != want || want && (got.at < at || got.at > at+1) {
					t.Errorf("seed %d: visitor %d %+v: %+v, want %t at %d", seed, i, v, got, want, at)
					return
				}
				switch {
				case want && at > v.came:
					waited++
				case !want && v.left >= 0 && out[i].at >= v.left:
					left++
				case !want:
					denied++
				}
			}
			if n := lim.waiters.Slots(); n != 0 {
				t.Errorf("seed %d: %d places are left", seed, n)
			}
		})
	}
	if waited < 500 || left < 50 || denied < 500 {
		t.Errorf("too little has happened: %d waited, %d left, %d denied", waited, left, denied)
	}
}

// visit plays visitors, whom all rules apply to.
func visit(t *testing.T, lim *Limiter, all []visitor) []answered {
	return comeAndGo(t, len(all), func(i int) (came, left int64) { return all[i].came, all[i].left }, func(ctx context.Context, i int) limit.Decision {
		charges := make([]Charge, len(all[i].keys))
		for k, key := range all[i].keys {
			r := lim.rules[k]
			charges[k] = Charge{r, r.BytesKey([]byte(key)), uint64(all[i].cost)}
		}
		d, _ := lim.WaitAll(ctx, charges)
		return d
	})
}

// What others do in the line of a rule for all denies nobody by a rule of its own, nor bans:
// each client sends as much as its own rule lets in, or lets wait.
func TestOthersInLineDenyNobody(t *testing.T) {
	t.Parallel()
	sent, let := 0, 0
	for seed := range uint64(30) {
		inBubbles(t, func(t *testing.T, c Config) {
			rng := rand.New(rand.NewPCG(seed, 8))
			own := waitRule("own", 2, 1+rng.Uint64N(3), 0)
			if seed%2 > 0 {
				own.MaxWait = time.Duration(100+rng.IntN(2000)) * time.Millisecond
			}
			own.Ban = limit.BanPolicy{After: 1, For: time.Minute}
			c.Rules = []limit.RuleConfig{own, waitRule("all", 5, 2, time.Duration(1+rng.IntN(8))*time.Second)}
			c.Wait.PerKey = 60
			if seed%3 == 0 {
				slices.Reverse(c.Rules)
			}
			lim := waiting(t, c)
			mine, _ := lim.Rule("own")
			all, _ := lim.Rule("all")
			p := newParty()
			for client := range 8 {
				p.wg.Go(func() {
					rng := rand.New(rand.NewPCG(seed, uint64(client)))
					key := []byte{byte(client)}
					var each party
					// (2/s, burst + what leaks within the wait) in time of coming.
					level, before := 0.0, time.Now()
					most := float64(own.Burst) + 2*own.MaxWait.Seconds() - 0.01
					for range 25 {
						time.Sleep(time.Duration(rng.IntN(700)) * time.Millisecond)
						now := time.Now()
						level, before = max(0, level-2*now.Sub(before).Seconds()), now
						if level+1 > most {
							time.Sleep(time.Duration((level + 1 - most) / 2 * float64(time.Second)))
							now = time.Now()
							level, before = max(0, level-2*now.Sub(before).Seconds()), now
						}
						level++
						each.wg.Go(func() {
							charges := []Charge{{mine, mine.BytesKey(key), 1}, {all, all.BytesKey(nil), 1}}
							if seed%3 == 0 {
								slices.Reverse(charges)
							}
							d, by := lim.WaitAll(t.Context(), charges)
							p.mu.Lock()
							defer p.mu.Unlock()
							if sent++; d.Allowed {
								let++
							} else if charges[by].Rule == mine {
								t.Errorf("seed %d: client %d is denied by its own rule: %+v", seed, client, d)
							}
						})
					}
					each.wg.Wait()
					if left, banned := mine.Banned(mine.BytesKey(key)); banned {
						t.Errorf("seed %d: client %d is banned for %v", seed, client, left)
					}
				})
			}
			p.wg.Wait()
		})
	}
	if let == sent || let < sent/4 {
		t.Errorf("%d of %d were let in", let, sent)
	}
}
