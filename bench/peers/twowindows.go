package peers

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"github.com/bits-and-blooms/bloom/v3"
	"github.com/fastlimit/fastlimit/bench/inproc"
	"github.com/fastlimit/fastlimit/bench/oracle"
)

// TwoWindows is the sketch that many articles show: a Bloom filter lets a
// client's first request in a window pass, a count-min sketch counts the
// others, the last window weighs in by what is left of it, and everything is
// reset when a window ends. Whoever's estimate is above the limit is denied,
// so that collisions deny clients for what others sent.
func TwoWindows() inproc.Contender {
	return inproc.Contender{
		Name:  "two-window sketch",
		Setup: "Bloom filter (10^6 clients, 1 %) and count-min 4 × 2^18 (8 MiB) for each of two windows of B/r, limit B, one lock; written here after the usual article",
		New: func(r oracle.Rule) (inproc.Limiter, error) {
			return &twoWindows{
				limit: float64(r.Burst), length: r.Window(), seed: maphash.MakeSeed(),
				seen: bloom.NewWithEstimates(1e6, 0.01), now: new(countMin), last: new(countMin),
			}, nil
		},
	}
}

const (
	rows  = 4
	width = 1 << 18
)

type countMin [rows][width]uint32

type twoWindows struct {
	limit  float64
	length time.Duration
	seed   maphash.Seed

	mu        sync.Mutex
	window    time.Duration // number of the current one
	seen      *bloom.BloomFilter
	now, last *countMin
}

func (l *twoWindows) Allow(addr netip.Addr, now time.Duration) bool {
	key := addr.As16()
	h := maphash.Comparable(l.seed, addr)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn(now / l.length)
	if !l.seen.TestAndAdd(key[:]) {
		return true
	}
	left := 1 - float64(now%l.length)/float64(l.length)
	if float64(l.now.estimate(h))+left*float64(l.last.estimate(h)) >= l.limit {
		return false
	}
	l.now.add(h)
	return true
}

// turn starts the given window, if it is a later one.
func (l *twoWindows) turn(window time.Duration) {
	if window <= l.window {
		return
	}
	l.now, l.last = l.last, l.now
	*l.now = countMin{}
	if window > l.window+1 {
		*l.last = countMin{}
	}
	l.seen.ClearAll()
	l.window = window
}

func (c *countMin) add(h uint64) {
	for i := range c {
		c[i][index(h, i)]++
	}
}

func (c *countMin) estimate(h uint64) uint32 {
	least := ^uint32(0)
	for i := range c {
		least = min(least, c[i][index(h, i)])
	}
	return least
}

// index is the place in row i: double hashing of both halves of the hash.
func index(h uint64, i int) uint32 { return (uint32(h) + uint32(i)*uint32(h>>32|1)) % width }
