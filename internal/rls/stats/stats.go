// Package stats counts what Envoy's rate limit service has decided, under the names that
// envoyproxy/ratelimit has in Prometheus.
package stats

import (
	"math"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
)

// maxSeries bounds the label sets: values of requests may be in them.
const maxSeries = 10_000

// Labels name a series: the domain, and what the first two steps to the limit are called.
// Limits that are deeper are added up.
type Labels struct{ Domain, Key1, Key2 string }

// rest is the series of those for which there is no room.
var rest = Labels{Domain: "other"}

// Series counts the hits of one limit, or of several. It is safe for concurrent use.
type Series struct {
	Total, Within, Near, Over, Shadow atomic.Uint64
}

// Registry has all series. It is safe for concurrent use.
type Registry struct {
	ratio     float32
	evictions func() uint64
	cluster   func() Cluster // nil: there is none
	calls     calls

	ConfigLoads, ConfigErrors atomic.Uint64
	GlobalShadow              atomic.Uint64 // requests over their limit that were admitted
	ServiceErrors             atomic.Uint64 // calls that failed

	mu     sync.RWMutex
	series map[Labels]*Series // guarded by mu
}

// New returns a registry. Hits are near a limit above ratio times the limit. evictions is
// how many counters in memory were forgotten.
func New(ratio float64, evictions func() uint64) *Registry {
	return &Registry{ratio: float32(ratio), evictions: evictions, calls: newCalls(), series: map[Labels]*Series{}}
}

// Cluster is what the exchange with other nodes is like.
type Cluster struct {
	Peers            int // that are up
	Unsent, Rejected uint64
}

// Show adds the metrics of a cluster to the Handler that is made next; nil adds none.
func (r *Registry) Show(cluster func() Cluster) { r.cluster = cluster }

// Series returns the series of some labels.
func (r *Registry) Series(l Labels) *Series {
	l = Labels{clean(l.Domain), clean(l.Key1), clean(l.Key2)}
	r.mu.RLock()
	s := r.series[l]
	r.mu.RUnlock()
	if s != nil {
		return s
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.series[l] == nil && len(r.series) >= maxSeries {
		l = rest
	}
	if r.series[l] == nil {
		r.series[l] = new(Series)
	}
	return r.series[l]
}

// each calls f for all series.
func (r *Registry) each(f func(Labels, *Series)) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for l, s := range r.series {
		f(l, s)
	}
}

// Add counts hits by the count of their window after them, which includes them. Those
// within the limit and those over it are told apart, even of one request.
func (r *Registry) Add(s *Series, hits, after uint64, limit uint32, shadow bool) {
	s.Total.Add(hits)
	most, before := uint64(limit), after-min(after, hits)
	near := uint64(math.Floor(float64(float32(most) * r.ratio)))
	if after <= most {
		s.Within.Add(hits)
		if after > near {
			s.Near.Add(min(hits, after-near))
		}
		return
	}
	over := min(hits, after-most)
	s.Over.Add(over)
	if before < most {
		s.Near.Add(most - max(near, before))
	}
	if shadow {
		s.Shadow.Add(over)
	}
}

var ipv4 = regexp.MustCompile(`\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}`)

// clean replaces what upstream does not have in labels.
func clean(label string) string {
	if !strings.ContainsAny(label, ":|.") {
		return label
	}
	label = strings.NewReplacer(":", "_", "|", "_").Replace(label)
	return ipv4.ReplaceAllStringFunc(label, func(ip string) string { return strings.ReplaceAll(ip, ".", "_") })
}
