package redisstore_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
)

// bucketOracle knows the level of one client's bucket as closely as one can without a
// look into Redis: from above, every admitted unit charged when its answer came, and
// from below, those of the exact tier charged when they were asked for. In units of
// 1/10^9 of a request.
type bucketOracle struct {
	above, below leaky
}

type leaky struct {
	level int64
	at    time.Duration
}

// leak moves the level to a time, which may be before the last one.
func (l *leaky) leak(at time.Duration, perSecond int64) int64 {
	if at > l.at {
		l.level = max(0, l.level-int64(at-l.at)*perSecond)
		l.at = at
	}
	return l.level
}

// Nodes share the leaky buckets of one rule in one Redis: nobody is denied whose
// requests fit, at whatever time in its flight each of them was charged, and what the
// exact tier admits fits a bucket that holds what leaks in J more.
func TestBucketsOfNodesOnRedis(t *testing.T) {
	t.Parallel()
	const unit, rate, burst = int64(time.Second), int64(40), uint64(60)
	for nodes := 1; nodes <= 3; nodes++ {
		rules := nodesOnRedis(t, nodes, fastlimit.RuleConfig{
			Name: "a", Rate: fastlimit.Rate{N: uint64(rate), Per: time.Second}, Burst: burst, OnFailure: fastlimit.FailClosed,
		})
		most := int64(burst+uint64(rate))*unit + rate*int64(2*time.Microsecond) // J is a second
		begin, oracles := time.Now(), [8]bucketOracle{}
		var stages [8][8]int // by client and stage: denials
		decisions := askNodes(nodes, func(rng *rand.Rand, client byte, node int) {
			o, n := &oracles[client], 1+rng.Int64N(3)
			if rng.IntN(10_000) == 0 { // the bucket drains
				time.Sleep(time.Duration(rng.Int64N(int64(3 * time.Second))))
			}
			r := rules[node]
			first := time.Since(begin)
			d := r.Take(context.Background(), r.BytesKey([]byte{client}), uint64(n))
			last := time.Since(begin)
			switch {
			case d.Allowed:
				o.above.leak(last, rate)
				o.above.level += n * unit
				if d.Stage != fastlimit.StageExact {
					return
				}
				o.below.leak(first, rate)
				if o.below.level += n * unit; o.below.level-int64(last-first)*rate > most {
					t.Errorf("P2: client %d: level %v after %d units of the exact tier", client, float64(o.below.level)/float64(unit), n)
				}
			case d.Stage != fastlimit.StageFallback:
				stages[client][d.Stage]++
				if level := o.above.leak(first, rate); level+n*unit <= int64(burst)*unit {
					t.Errorf("P1: %d units of client %d denied at stage %v at level %v of %d", n, client, d.Stage, float64(level)/float64(unit), burst)
				}
			}
		})
		exact, tables := 0, 0
		for i := range stages {
			exact, tables = exact+stages[i][fastlimit.StageExact], tables+stages[i][fastlimit.StageTable]
		}
		t.Logf("%d nodes: %d decisions, %d denials by Redis and %d by tables", nodes, decisions, exact, tables)
		if tables == 0 || exact == 0 && nodes > 1 { // a node alone knows all that Redis does
			t.Errorf("%d nodes: %d denials by Redis and %d by tables: nothing was tested", nodes, exact, tables)
		}
	}
}
