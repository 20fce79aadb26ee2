package engine

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// Two nodes charge one client on one store, and answers reconcile their charges, on either node: the store's
// bucket holds exactly what a bucket by hand does, at least what the requests have cost in the end (P2) and
// never more than the burst. A node denies only what its own charges and refunds explain, together with what
// the other has charged (P1).
func TestSettleOnTwoNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(40) {
			settleOnTwoNodes(t, seed)
		}
	})
}

func settleOnTwoNodes(t *testing.T, seed uint64) {
	const rate, burst = 10, 20
	rng := rand.New(rand.NewPCG(seed, 28))
	s := newSlowStore(t)
	start := time.Now()
	var rules [2]*Rule
	var keys [2]Key
	for i := range rules {
		rules[i] = sharedLimiter(t, s.sibling(), strictRule("a", rate, time.Second, burst)).rules[0]
		keys[i] = rules[i].BytesKey([]byte("a"))
	}
	full := int64(rules[0].buckets.Shape.Limit() * 1e6 / rules[0].buckets.Shape.Unit()) // the burst, and what may bunch on its way to the store
	name := storedName(rules[0], keys[0])
	type admitted struct {
		node  int
		at    time.Duration // by its node
		final int           // its place
	}
	var open []admitted
	var final []settled
	var x int64                // the bucket, by hand, in millionths
	var known [2]int64         // the same for who has not heard of the other's refunds
	charge := func(n uint64) { // on all of them
		x += int64(n) * 1e6
		known[0], known[1] = known[0]+int64(n)*1e6, known[1]+int64(n)*1e6
		final = append(final, settled{time.Since(start), n})
	}
	for range 150 {
		pause := time.Duration(rng.Uint64N(300)) * time.Millisecond
		time.Sleep(pause)
		leak := pause.Microseconds() * rate
		x, known[0], known[1] = max(0, x-leak), max(0, known[0]-leak), max(0, known[1]-leak)
		if len(open) == 0 || rng.IntN(2) == 0 {
			i, c := rng.IntN(2), 1+rng.Uint64N(6)
			at := rules[i].limiter.Now()
			d := rules[i].Take(t.Context(), keys[i], c)
			if cost := int64(c) * 1e6; d.Degraded || d.Allowed && x+cost > full || !d.Allowed && known[i]+cost <= full {
				t.Fatalf("seed %d: %+v on node %d at level %d, known %v, cost %d", seed, d, i, x, known, c)
			}
			if d.Allowed {
				open = append(open, admitted{i, at, len(final)})
				charge(c)
			}
		} else {
			k := rng.IntN(len(open))
			p, n := open[k], rng.Uint64N(12)
			open = append(open[:k], open[k+1:]...)
			was := final[p.final]
			more := rules[p.node].Settle(t.Context(), keys[p.node], was.units, n, p.at)
			synctest.Wait() // nobody waits for what is given back
			if n > was.units {
				want := min(n-was.units, uint64(full-x)/1e6)
				if more != want && (more != 0 || known[p.node] <= full-1e6) {
					t.Fatalf("seed %d: %d more, want %d at level %d, known %v", seed, more, want, x, known)
				}
				charge(more)
			} else {
				back := max(0, int64(was.units-n)*1e6-(time.Since(start)-was.at).Microseconds()*rate)
				x, known[p.node] = x-min(x, back), known[p.node]-min(known[p.node], back)
				final[p.final].units = n
			}
		}
		state := s.State(name)
		level := max(0, int64(state.Level)-(time.Since(start).Microseconds()+1-int64(state.Last))) * 1e6 / int64(rules[0].buckets.Shape.Unit())
		if level != x {
			t.Fatalf("seed %d: the store has level %d, want %d", seed, level, x)
		}
		if truth := levelOf(final, rate, time.Since(start)); truth > x || x > full {
			t.Fatalf("seed %d: P2: requests have cost %d, the bucket holds %d", seed, truth, x)
		}
	}
}

// A store is not asked about clients that are not suspects, whatever their requests turn
// out to cost (P4).
func TestSettleAsksOfSuspectsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowStore(t)
		r := sharedLimiter(t, s, rule("a", 10, time.Second, 20)).rules[0]
		key := r.BytesKey([]byte("a"))
		for i, n := range []uint64{0, 5, 1} {
			since := r.limiter.Now()
			if d := r.Take(t.Context(), key, 1); !d.Allowed {
				t.Fatal(d)
			}
			r.Settle(t.Context(), key, 1, n, since)
			synctest.Wait()
			if takes, amends := s.takes.Load(), s.amends.Load(); takes+amends > 0 {
				t.Fatalf("request %d: the store has had %d takes and %d refunds", i, takes, amends)
			}
		}
		for range 3 {
			r.Settle(t.Context(), key, 1, 6, r.limiter.Now())
		}
		since := r.limiter.Now()
		r.Take(t.Context(), key, 2)
		takes := s.takes.Load()
		r.Settle(t.Context(), key, 2, 0, since)
		if synctest.Wait(); takes == 0 || s.amends.Load() != 1 {
			t.Errorf("of a suspect it has had %d takes and %d refunds", takes, s.amends.Load())
		}
	})
}
