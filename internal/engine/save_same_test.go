package engine

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/machine"
	"github.com/fastlimit/fastlimit/limit"
)

// TestLoadedDecidesAlike: a limiter that was saved and loaded answers every request as the
// one that went on, whatever the algorithm: nothing that decides is lost or added.
func TestLoadedDecidesAlike(t *testing.T) {
	t.Parallel()
	total := 0
	for i, c := range sandwichCases() {
		if c.geo.bans > 0 || c.geo.sets < 16 {
			continue // full tables draw lots, and give up what drained buckets leave room for
		}
		steps := int(float64(c.steps) * *sandwichScale / 60)
		if raceEnabled {
			steps /= 6
		}
		total += steps
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(i), 46))
			for steps > 0 {
				w := newWorld(t, rng, c.clients, c.geo, c.rules...)
				w.peers = c.peers
				steps -= driveBoth(t, w, rng, steps)
			}
		})
	}
	if total < 500_000 && !raceEnabled && *sandwichScale >= 1 {
		t.Errorf("%d decisions", total)
	}
}

// driveBoth sends all requests to two limiters, the second of which is reloaded from the first now and then.
func driveBoth(t *testing.T, w *world, rng *rand.Rand, steps int) (done int) {
	t.Helper()
	const century = 50 * 365 * 24 * time.Hour
	var now time.Duration
	twin := w.lim
	for done < steps && now < century {
		p := newPattern(rng, w, len(w.digests))
		for range min(200+rng.IntN(1000), steps-done) {
			if max(now, w.latest) > century {
				return done + 1
			}
			if rng.IntN(500) == 0 {
				var file bytes.Buffer
				if err := w.lim.save(&file, machine.Instant{}); err != nil {
					t.Fatal(err)
				}
				var err error
				if twin, err = Load(&file, LoadOptions{Clock: new(ManualClock)}); err != nil {
					t.Fatal(err)
				}
			}
			done++
			now += p.gap(rng, w)
			client, cost := p.client(rng), p.cost(rng)
			w.line(now)
			var got [2]limit.Decision
			var by [2]int
			for k, lim := range []*Limiter{w.lim, twin} {
				charges := make([]Charge, len(p.rules))
				for j, r := range p.rules {
					charges[j] = Charge{Rule: lim.rules[r], Key: rawKey(lim.rules[r], w.digests[client][r]), Cost: cost}
				}
				if k == 0 || twin != w.lim {
					got[k], by[k] = lim.takeAll(context.Background(), charges, setTime(lim, now))
				} else {
					got[1], by[1] = got[0], by[0]
				}
			}
			if got[0] != got[1] || by[0] != by[1] {
				t.Fatalf("decision %d, %s, client %d, cost %d at %v:\n%+v by the limiter\n%+v by the one that was loaded", done, p.name, client, cost, now, got[0], got[1])
			}
		}
		advanceAt(w.lim, now)
		if twin != w.lim {
			advanceAt(twin, now)
		}
	}
	return done + 1
}
