// Package latency counts how long things take, in buckets whose bounds never change, so that
// Prometheus can add up nodes and versions.
//
// An observation is a search in 22 bounds and two atomic adds on cache lines that all cores share. That is
// too much for a million requests a second, so code that sees every request observes one of [Every]: it
// counts down in its own memory ([Sampler]) and reads the clock only for that one.
package latency

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

// Every is the number of requests per sampled one. It is prime, so that kinds of requests that alternate are
// all sampled.
const Every = 61

// Bounds are the inclusive upper ends of the buckets, 1, 2.5 and 5 of each power of ten from 1 µs to 10 s.
// One more bucket is for longer times.
var Bounds = [...]time.Duration{
	1e3, 2500, 5e3, 1e4, 25e3, 5e4, 1e5, 25e4, 5e5, 1e6, 25e5, 5e6, 1e7, 25e6, 5e7, 1e8, 25e7, 5e8, 1e9, 25e8, 5e9, 1e10,
}

// Histogram counts durations. The zero value has none. It is safe for concurrent use.
type Histogram struct {
	counts [len(Bounds) + 1]atomic.Uint64
	sum    atomic.Int64 // ns
}

// Observe counts a duration; a negative one counts as 0.
func (h *Histogram) Observe(d time.Duration) {
	d = max(d, 0)
	at, _ := slices.BinarySearch(Bounds[:], d)
	h.counts[at].Add(1)
	h.sum.Add(int64(d))
}

// Counts are the observations of a histogram, or of several. The zero value has none.
type Counts struct {
	Buckets [len(Bounds) + 1]uint64 // the last one is above all bounds
	Sum     time.Duration
}

// Counts returns what was observed so far. Concurrent observations may be included in part.
func (h *Histogram) Counts() (c Counts) {
	for i := range c.Buckets {
		c.Buckets[i] = h.counts[i].Load()
	}
	c.Sum = time.Duration(h.sum.Load())
	return c
}

// Add adds the observations of another histogram.
func (c *Counts) Add(o *Counts) {
	for i := range c.Buckets {
		c.Buckets[i] += o.Buckets[i]
	}
	c.Sum += o.Sum
}

// Sampler picks one of [Every] requests. The zero value is not usable: call [NewSampler]. It belongs to one
// goroutine at a time.
type Sampler struct{ left uint32 }

// NewSampler returns a sampler that begins at a random position, so that short-lived samplers pick as many.
func NewSampler() Sampler { return Sampler{1 + rand.Uint32N(Every)} }

// Next reports whether the next request is one to observe.
func (s *Sampler) Next() bool {
	s.left--
	if s.left > 0 {
		return false
	}
	s.left = Every
	return true
}

// Watch measures one request. The zero value measures nothing.
type Watch struct {
	began time.Time
	into  *Histogram
}

// Begin returns a watch that runs from began.
func Begin(began time.Time, into *Histogram) Watch { return Watch{began, into} }

// Stop counts the time since the watch began, once.
func (w *Watch) Stop() {
	if w.into != nil {
		w.into.Observe(time.Since(w.began))
		w.into = nil
	}
}
