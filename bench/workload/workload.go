// Package workload is models of traffic: botnets, crowds, floods and drips, each
// with parameters from what was published, scaled down to any size and the same
// in every run with the same seed.
package workload

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit/bench/oracle"
)

// Event is one request.
type Event struct {
	Client uint32        // 0 to Traffic.Clients - 1: whom the oracle counts
	Addr   netip.Addr    // one client may use many: see rotate-v6
	At     time.Duration // since the start; never decreases
}

// Params size a workload. Zero fields mean defaults.
type Params struct {
	// Seed determines every event. The zero value is a seed like any other.
	Seed uint64
	// Rule is the limit that the workload is made to test.
	Rule oracle.Rule
	// Requests bounds the size: a workload whose published size would send
	// more in Duration is scaled down to fewer clients, each as busy as
	// before. Bystanders come on top, up to 30 %. 0 means 10^6.
	Requests int
	// Duration is the time that the events span. 0 means 6 s, which is three
	// windows of the default rule's burst.
	Duration time.Duration
}

const (
	defaultRequests = 1_000_000
	defaultDuration = 6 * time.Second
)

func (p Params) withDefaults() Params {
	p.Rule = p.Rule.WithDefaults()
	if p.Requests == 0 {
		p.Requests = defaultRequests
	}
	if p.Duration == 0 {
		p.Duration = defaultDuration
	}
	return p
}

// Workload is a model of traffic, of whatever size [Params] ask for.
type Workload struct {
	Name string
	// Clients is the number at full size.
	Clients int

	// perClient is the mean rate of one client, in requests per second.
	perClient func(p Params) float64
	// open starts n clients that send perSecond in all.
	open func(rng *rand.Rand, p Params, n int, perSecond float64) arrivals
	// alone leaves out the bystanders: the clients conform already, or are a
	// mixture.
	alone bool
	// rotates gives every request another address within its client's /64.
	rotates bool
}

// Traffic is a workload of a certain size and seed.
type Traffic struct {
	// Clients is how many there are; the last Bystanders of them conform.
	Clients, Bystanders int
	// Scale is the number of clients by that of the full size.
	Scale float64

	workload *Workload
	params   Params
	active   int // clients that are not bystanders
}

// bystanderShare of the requests comes from clients that use half their limit. A
// limiter must not deny these while it sheds the others.
const (
	bystanderShare = 0.3
	bystanderLoad  = 0.5
)

// Traffic sizes the workload.
func (w *Workload) Traffic(p Params) Traffic {
	p = p.withDefaults()
	full := float64(w.Clients) * w.perClient(p) * p.Duration.Seconds()
	n := max(1, int(float64(w.Clients)*min(1, float64(p.Requests)/full)))
	t := Traffic{workload: w, params: p, active: n, Scale: float64(n) / float64(w.Clients)}
	if !w.alone {
		each := bystanderLoad * p.Rule.Rate.PerSecond() * p.Duration.Seconds()
		t.Bystanders = max(1, int(bystanderShare*float64(p.Requests)/each))
	}
	t.Clients = n + t.Bystanders
	return t
}

// Duration is the time that the events span.
func (t Traffic) Duration() time.Duration { return t.params.Duration }

// Events yields the events in order of time. Every call yields the same ones from
// the start, in constant memory.
func (t Traffic) Events() iter.Seq[Event] {
	p := t.params
	rng := rand.New(rand.NewPCG(p.Seed, 0x6661_7374))
	next := t.workload.open(rng, p, t.active, float64(t.active)*t.workload.perClient(p))
	if t.Bystanders > 0 {
		rate := bystanderLoad * p.Rule.Rate.PerSecond() * float64(t.Bystanders)
		own := rand.New(rand.NewPCG(p.Seed, 0x6c69_6d69))
		next = merge(next, poisson(own, rate, uniform(own, t.Bystanders)), t.active)
	}
	return func(yield func(Event) bool) {
		for {
			client, at := next()
			if at >= p.Duration || int(client) >= t.Clients || !yield(Event{client, t.addr(client, rng), at}) {
				return
			}
		}
	}
}

func (t Traffic) addr(client uint32, rng *rand.Rand) netip.Addr {
	if t.workload.rotates {
		return v6(client, rng.Uint64())
	}
	return V4(client)
}

// Find returns the workload of that name. "zipf-" takes any exponent
// above 0.
func Find(name string) (*Workload, error) {
	if s, ok := strings.CutPrefix(name, "zipf-"); ok {
		if exponent, err := strconv.ParseFloat(s, 64); err == nil && exponent > 0 && !math.IsInf(exponent, 0) {
			return zipfWorkload(exponent), nil
		}
	}
	all := All()
	for _, w := range all {
		if w.Name == name {
			return w, nil
		}
	}
	names := make([]string, len(all))
	for i, w := range all {
		names[i] = w.Name
	}
	return nil, fmt.Errorf("bench: no workload %q: want one of %s", name, strings.Join(names, ", "))
}
