package trial

import (
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/remote"
)

// Fuzzed is what a fuzzer chooses of a scene, but for what is stored.
type Fuzzed struct {
	Now                      uint64 // µs
	Kinds                    uint32 // an octal digit for each of five operations, then the algorithm
	N, Seconds, Burst        uint64 // of the limit
	Cost, Count, Floor, Back uint64
	Age, Patience            int64
}

// FuzzedScene has up to five operations of one algorithm on one stored value. ok is false
// where a store would refuse the limit or the time.
func FuzzedScene[V any](stored V, z Fuzzed) (sc Scene[V], ok bool) {
	s, err := ShapeOf(Algorithms[z.Kinds>>15%4], z.N, time.Duration(1+z.Seconds%86400)*time.Second, z.Burst)
	if err != nil || !s.Portable() || z.Now >= 1<<53 {
		return sc, false
	}
	start := time.Unix(0, 0)
	sc = Scene[V]{Stored: []V{stored}, Now: z.Now, Clock: remote.Dating{Reading: remote.Reading{Micros: int64(z.Now), Got: start}, Sent: start}}
	for more, kinds := true, z.Kinds&0o77777; more; more = kinds > 0 {
		op := bucket.Op{
			Kind: bucket.Kind(kinds & 3), Shape: s, Cost: z.Cost, Count: max(1, z.Count), Floor: z.Floor, Back: z.Back,
			At: start.Add(-time.Duration(z.Age / 4)), Patience: time.Duration(z.Patience),
		}
		if s.Windowed() {
			window := WindowOf(s, z.Now)
			op.Window, op.CountDenied = (window-min(window, uint64(z.Age)%3))*(z.Back%2), z.Burst%2 == 0
		}
		sc.Ops, sc.On = append(sc.Ops, op), append(sc.On, 0)
		kinds >>= 3
	}
	return sc, true
}
