package server

import "sync/atomic"

// outcome is what became of a request.
type outcome uint8

const (
	outcomeAllow outcome = iota
	outcomeDeny
	outcomeListAllow
	outcomeListDeny
	outcomeCount
)

const outcomeStripes = 64

// outcomes counts requests. It is striped by job, of which the pool gives each
// core its own, so that cores rarely meet on a line and each finds its own in
// its cache. Safe for concurrent use; the zero value is ready.
type outcomes struct {
	stripes [outcomeStripes]struct {
		n [outcomeCount]atomic.Uint64
		// Two lines: the adjacent-line prefetcher would make neighbours share.
		_ [128 - 8*outcomeCount]byte
	}
}

func (o *outcomes) add(stripe uint32, what outcome) {
	o.stripes[stripe%outcomeStripes].n[what].Add(1)
}

// totals adds the stripes up. Concurrent requests may be missing.
func (o *outcomes) totals() (sum [outcomeCount]uint64) {
	for i := range o.stripes {
		for w := range sum {
			sum[w] += o.stripes[i].n[w].Load()
		}
	}
	return sum
}
