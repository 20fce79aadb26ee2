package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/limit"
)

// The ways through the pipeline, each on a limiter of its own: what is written out for one
// plain rule, the steps, those of several rules, and those of a request that may wait.
var pipelines = []struct {
	name string
	take func(ctx context.Context, l *Limiter, k Key, n uint64) limit.Decision
}{
	{"take", func(ctx context.Context, l *Limiter, k Key, n uint64) limit.Decision {
		return l.rules[0].Take(ctx, k, n)
	}},
	{"takeInSteps", func(ctx context.Context, l *Limiter, k Key, n uint64) limit.Decision {
		d, taken := l.rules[0].takeInSteps(ctx, k, n, false, l.clock.Now(), 0)
		if d.Allowed && taken != n {
			panic(fmt.Sprintf("%d of %d taken", taken, n))
		}
		return d
	}},
	{"takeAll", func(ctx context.Context, l *Limiter, k Key, n uint64) limit.Decision {
		d, _ := l.TakeAll(ctx, []Charge{{l.rules[0], k, n}, {l.rules[1], l.rules[1].BytesKey([]byte("x")), 0}})
		return d
	}},
	{"DenyAllAt, then TakeAll", func(ctx context.Context, l *Limiter, k Key, n uint64) limit.Decision {
		all := []Charge{{l.rules[0], k, n}, {l.rules[1], l.rules[1].BytesKey([]byte("x")), 0}}
		d, by, denied := l.DenyAllAt(all, time.Time{})
		if denied {
			return d
		}
		if d != (limit.Decision{}) || by != -1 {
			panic(fmt.Sprintf("%+v by %d, although nobody denies", d, by))
		}
		if d, _ = l.TakeAll(ctx, all); !d.Allowed && (d.Stage == limit.StageTable || d.Stage == limit.StageBan) {
			panic(fmt.Sprintf("%+v after nobody denied", d))
		}
		return d
	}},
	{"WaitAll", func(ctx context.Context, l *Limiter, k Key, n uint64) limit.Decision {
		d, _ := l.WaitAll(ctx, []Charge{{l.rules[0], k, n}, {l.rules[1], l.rules[1].BytesKey([]byte("x")), 1}})
		return d
	}},
	{"TakeUpTo", func(ctx context.Context, l *Limiter, k Key, n uint64) limit.Decision {
		d, taken := l.rules[0].TakeUpTo(ctx, k, n)
		if d.Allowed != (taken > 0) {
			panic(fmt.Sprintf("%+v with %d taken", d, taken))
		}
		return d
	}},
}

// All ways through the pipeline decide alike, at the same stage and with the same times.
func TestPipelinesDecideAlike(t *testing.T) {
	t.Parallel()
	for algorithm := range bucket.NumAlgorithms {
		for _, bans := range []bool{false, true} {
			for most := uint64(1); most <= 3; most += 2 {
				t.Run(fmt.Sprintf("%v, bans %t, costs up to %d", algorithm, bans, most), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) { decideAlike(t, algorithm, bans, most) })
				})
			}
		}
	}
}

func decideAlike(t *testing.T, algorithm bucket.Algorithm, bans bool, most uint64) {
	c := withAlgorithm(rule("a", 10, time.Second, 20), algorithm)
	if bans {
		c.Ban = limit.BanPolicy{After: 5, Within: 10 * time.Second, For: time.Minute}
	}
	if periodic(c) {
		c.Burst = 0
	}
	other := rule("b", 1<<20, time.Second, 1<<20)
	other.MaxWait = time.Nanosecond // nothing fits sooner if it does not fit now
	ways := pipelines
	if most > 1 {
		ways = ways[:5] // who is given less goes on otherwise
	}
	var limiters []*Limiter
	for range ways {
		l, err := New(Config{Rules: []limit.RuleConfig{c, other}, Memory: 2 << 20, Secret: [32]byte{1}})
		if err != nil {
			t.Fatal(err)
		}
		limiters = append(limiters, l)
	}
	rng := rand.New(rand.NewPCG(uint64(algorithm), most))
	stages := map[limit.Stage]int{}
	for i := range testkit.Size(20_000, 500_000) {
		if rng.IntN(12) == 0 {
			time.Sleep(time.Duration(rng.Int64N(int64(200*time.Millisecond))) / time.Microsecond * time.Microsecond)
		}
		client, n := []byte{byte(rng.IntN(5))}, 1+rng.Uint64N(most)
		var want limit.Decision
		first := limiters[0]
		asked := i%4 == 0
		if asked && first.filter != nil {
			for _, l := range limiters { // else the request turns the window, after it is foreseen
				l.filter.Advance(l.clock.Now())
			}
		}
		foreseen := first.rules[0].Foresee(first.rules[0].BytesKey(client), n)
		for at, way := range ways {
			l := limiters[at]
			got := way.take(t.Context(), l, l.rules[0].BytesKey(client), n)
			if at == 0 {
				want = got
				stages[got.Stage]++
				if f := &foreseen.Decision; asked && (f.Allowed != got.Allowed || got.Stage != limit.StageBan && f.Stage != got.Stage || !got.Allowed && got.Stage == f.Stage && *f != got) {
					t.Fatalf("decision %d, %d units: %+v, and %+v was foreseen", i, n, got, foreseen)
				}
			}
			// What is told of an admission is of the last rule.
			if got.Outcome != want.Outcome && (way.name != "WaitAll" || got.Allowed != want.Allowed) || !got.Allowed && got != want {
				t.Fatalf("decision %d, %d units: %s %+v, %s %+v", i, n, ways[0].name, want, way.name, got)
			}
		}
	}
	if stages[limit.StageTable] == 0 || stages[limit.StageExact] == 0 || bans && stages[limit.StageBan] == 0 {
		t.Errorf("stages %v", stages)
	}
}
