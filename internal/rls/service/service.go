// Package service decides what Envoy's rate limit service answers, as
// [envoyproxy/ratelimit] does: it looks up the limit of each descriptor of a request, counts
// its hits, and joins the results. It knows no protocol.
//
// A descriptor is over its limit if the count of its window, its own hits included, is more
// than the limit. Hits that are over the limit count too, and so do those of the other
// descriptors. A request is over the limit if one of its descriptors is.
//
// [envoyproxy/ratelimit]: https://github.com/envoyproxy/ratelimit
package service

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/internal/rls/count"
	"github.com/fastlimit/fastlimit/internal/rls/descriptor"
	"github.com/fastlimit/fastlimit/internal/rls/stats"
)

// Config is how a service answers. The fields are envoyproxy/ratelimit's variables.
type Config struct {
	Shadow          bool // SHADOW_MODE: never answer that a request is over its limit
	Quota           bool // QUOTA_MODE: as if all limits had quota_mode
	StopWhenOver    bool // STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: if one is over its limit, count for no other
	Metadata        bool // RESPONSE_DYNAMIC_METADATA
	Headers         bool // LIMIT_RESPONSE_HEADERS_ENABLED
	LimitHeader     string
	RemainingHeader string
	ResetHeader     string
}

// Service answers requests. It is safe for concurrent use. Until it has limits, every
// request fails.
type Service struct {
	cfg     Config
	counter count.Counter
	stats   *stats.Registry
	inForce atomic.Pointer[inForce]
	work    sync.Pool // of *work
}

// inForce are limits with the series that count them. Immutable.
type inForce struct {
	*descriptor.Limits

	series map[*descriptor.Limit]*stats.Series
}

// New returns a service without limits, whose decisions are counted in a registry.
func New(cfg Config, counter count.Counter, to *stats.Registry) *Service {
	return &Service{cfg: cfg, counter: counter, stats: to, work: sync.Pool{New: func() any { return new(work) }}}
}

// SetLimits replaces all limits at once. Counts stay.
func (s *Service) SetLimits(l *descriptor.Limits) {
	f := &inForce{l, make(map[*descriptor.Limit]*stats.Series, l.Len())}
	l.Each(func(domain string, limit *descriptor.Limit) {
		labels := stats.Labels{Domain: domain, Key1: limit.Steps[0]}
		if len(limit.Steps) > 1 {
			labels.Key2 = limit.Steps[1]
		}
		f.series[limit] = s.stats.Series(labels)
	})
	s.inForce.Store(f)
}

// Limits returns the limits in force, nil if there are none yet.
func (s *Service) Limits() *descriptor.Limits {
	if f := s.inForce.Load(); f != nil {
		return f.Limits
	}
	return nil
}

// Response is a RateLimitResponse.
type Response struct {
	Over     bool
	Statuses []Status // of each descriptor, in order
	Headers  []Header // to add to the response that the client gets
	Metadata map[string]any
}

// Status is that of one descriptor.
type Status struct {
	Over      bool
	Limit     *Current // nil if none applies
	Remaining uint32
	Reset     time.Duration // until the window is over, in whole seconds, rounded up
}

// Current is the limit that applied.
type Current struct {
	Requests uint32
	Unit     descriptor.Unit
	Name     string
}

// Header is one to add to a response.
type Header struct{ Key, Value string }

// Decide answers a request at a time since 1970.
func (s *Service) Decide(now time.Duration, req *Request) (*Response, error) {
	if err := req.check(); err != nil {
		return nil, err
	}
	limits := s.inForce.Load()
	if limits == nil {
		return nil, ErrNoLimits
	}
	w := s.work.Get().(*work)
	defer s.work.Put(w)
	w.find(limits, req, s)
	if err := s.count(now, w); err != nil {
		return nil, err
	}
	return s.answer(now, req, w), nil
}

// count adds the hits of a request.
func (s *Service) count(now time.Duration, w *work) error {
	if !s.cfg.StopWhenOver {
		return s.counter.Add(now, w.hits)
	}
	if err := s.counter.Ask(now, w.hits); err != nil {
		return err
	}
	if slices.ContainsFunc(w.hits, over) {
		for i := range w.hits {
			if !over(w.hits[i]) {
				w.hits[i].Hits = 0
			}
		}
	}
	return s.counter.Add(now, w.hits)
}
