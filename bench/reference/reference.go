// Package reference is the limiter that most people write first: a sharded
// map of golang.org/x/time/rate limiters. Benchmarks measure against it in
// the same run. It is frozen: do not improve it.
package reference

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const shards = 256

// Limiter limits each address to a rate. It is safe for concurrent use and
// never forgets an address. The zero value is not usable: call [New].
type Limiter struct {
	limit  rate.Limit
	burst  int
	seed   maphash.Seed
	shards [shards]shard
}

type shard struct {
	mu sync.Mutex
	m  map[netip.Addr]*rate.Limiter // guarded by mu
	_  [48]byte                     // one cache line each
}

// New returns a limiter of perSecond and burst for each address.
func New(perSecond float64, burst int) *Limiter {
	l := &Limiter{limit: rate.Limit(perSecond), burst: burst, seed: maphash.MakeSeed()}
	for i := range l.shards {
		l.shards[i].m = map[netip.Addr]*rate.Limiter{}
	}
	return l
}

// AllowN takes n for addr at time t.
func (l *Limiter) AllowN(addr netip.Addr, t time.Time, n int) bool {
	s := &l.shards[maphash.Comparable(l.seed, addr)%shards]
	s.mu.Lock()
	lim := s.m[addr]
	if lim == nil {
		lim = rate.NewLimiter(l.limit, l.burst)
		s.m[addr] = lim
	}
	s.mu.Unlock()
	return lim.AllowN(t, n)
}
