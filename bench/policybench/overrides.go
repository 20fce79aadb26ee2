// Package policybench measures what deciding costs when rules have overrides: time per
// decision beside the same rule without any, and memory beside what was planned.
package policybench

import (
	"context"
	"fmt"
	"net/netip"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bench/defaults"
	"github.com/fastlimit/fastlimit/bench/proc"
	"github.com/fastlimit/fastlimit/bench/report"
	"github.com/fastlimit/fastlimit/policy"
)

// Options configure [Run]. Zero fields mean defaults.
type Options struct {
	Overrides int             `default:"100000"  help:"Overrides of the rule."`
	Clients   int             `default:"1000000" help:"Clients that ask, of whom so many have an override."`
	Rounds    int             `default:"25"      help:"Turns of each."`
	Decisions int             `default:"50000"   help:"Decisions in a turn."`
	Progress  report.Progress `kong:"-"`
}

// Check reports options that cannot be measured.
func (o Options) Check() error {
	if o = defaults.Of(o); o.Overrides < 1 || o.Overrides >= o.Clients || o.Clients > 1<<27 || o.Rounds < 1 || o.Decisions < 1 {
		return fmt.Errorf("bench: overrides: want 1 or more overrides, more clients, and rounds and decisions: %+v", o)
	}
	return nil
}

const (
	limits    = 100 // different ones that overrides have
	memory    = 128 << 20
	keyHeader = "X-Api-Key"
)

// kind is what is compared.
type kind struct {
	name      string
	overrides bool
	strict    bool // every decision is exact, as is that on a client with an override
}

var kinds = [...]kind{{name: "fastlimit, no overrides"}, {name: "fastlimit, overrides", overrides: true}, {name: "fastlimit, strict", strict: true}}

// subject is an engine with one rule, and the request of a client.
type subject struct {
	engine    *policy.Engine
	overrides int
	values    [1][]byte // the client's name, if it is not its address
	request   policy.Request
	scratch   policy.Scratch

	next         int   // where the tour of all clients goes on
	planned, rss int64 // bytes
}

// Header implements [policy.Fields].
func (s *subject) Header(string) [][]byte { return s.values[:] }

// Cookie implements [policy.Fields].
func (*subject) Cookie(string) [][]byte { return nil }

// newSubject makes a rule that counts by address or by a header, and fills it with all
// clients, of whom the first have an override.
func newSubject(o Options, k kind, byHeader bool) (*subject, error) {
	overrides := 0
	if k.overrides {
		overrides = o.Overrides
	}
	before, err := residentBytes()
	if err != nil {
		return nil, err
	}
	s := &subject{overrides: overrides, request: policy.Request{Method: []byte("GET"), Host: []byte("example.com"), Path: []byte("/")}}
	spec := policy.RuleSpec{
		Limit: fastlimit.RuleConfig{Name: "bench", Rate: fastlimit.Rate{N: 1000, Per: time.Second}, Burst: 2000, Strict: k.strict},
		Key:   []policy.KeyPart{{Kind: policy.KeyIP}},
	}
	if byHeader {
		spec.Key[0] = policy.KeyPart{Kind: policy.KeyHeader, Name: keyHeader}
		s.request.Fields = s
	}
	for i := range overrides {
		s.becomes(i)
		text := s.request.Client.String()
		if byHeader {
			text = string(s.values[0])
		}
		n := uint64(1000 + i%limits)
		spec.Overrides = append(spec.Overrides, policy.Override{Key: []string{text}, Rate: fastlimit.Rate{N: n, Per: time.Second}, Burst: 2 * n})
	}
	settings := policy.Settings{Rules: []policy.RuleSpec{spec}, MaxOverrides: overrides}
	lim, err := fastlimit.New(fastlimit.Config{Rules: settings.Limits(), Reserved: settings.OverrideMemory(), Memory: memory})
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	if s.engine, err = policy.New(lim, settings); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	s.planned = lim.Plan().Memory
	s.decide(o.clients(), o.Clients)
	after, err := residentBytes()
	s.rss = after - before
	return s, err
}

// residentBytes is this process' resident memory without garbage.
func residentBytes() (int64, error) {
	debug.FreeOSMemory()
	return proc.SelfRSS()
}

// becomes makes the request that of client i.
func (s *subject) becomes(i int) {
	// An odd multiplier is a bijection that puts neighbours far apart.
	n := uint32(i+1) * 0x9e3779b1
	s.request.Client = netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
	if s.request.Fields != nil {
		s.values[0] = strconv.AppendInt(append(s.values[0][:0], "user-"...), int64(i), 10)
	}
}

// decide makes n decisions, on each client once in a tour and in no order. The next call
// goes on with the tour. As in a server, the clock is read before.
func (s *subject) decide(a *asked, n int) {
	ctx := context.Background()
	for range n {
		s.next++
		s.becomes(a.first + s.next*7919%a.of) // a prime
		s.engine.DecideAt(ctx, &s.request, &s.scratch, time.Now())
	}
}

// asked is which clients ask.
type asked struct {
	what      string
	first, of int

	turns [len(kinds)][]float64 // CPU time in ns per decision, of each kind
}

// clients are all of them.
func (o Options) clients() *asked { return &asked{what: "all clients", of: o.Clients} }

// Run measures a rule that counts by address and one by a header. Turns with and without
// overrides alternate, and medians count.
func Run(ctx context.Context, o Options) (results []report.Result, err error) {
	o = defaults.Of(o)
	for i, by := range []string{"address", "header"} {
		o.Progress.Tell(i, 2, "overrides by %s", by)
		more, err := o.run(ctx, by)
		if results = append(results, more...); err != nil {
			return results, err
		}
	}
	return results, nil
}

func (o Options) run(ctx context.Context, by string) (results []report.Result, err error) {
	var subjects [len(kinds)]*subject
	for i, k := range kinds {
		if subjects[i], err = newSubject(o, k, by == "header"); err != nil {
			return nil, err
		}
	}
	all := []*asked{
		o.clients(),
		{what: "clients without an override", first: o.Overrides, of: o.Clients - o.Overrides},
		{what: "clients with one", of: o.Overrides},
	}
	for round := range o.Rounds {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		for _, a := range all {
			for k := range kinds {
				k = (k + round) % len(kinds) // none always comes first
				ns, err := o.turn(subjects[k], a)
				if err != nil {
					return nil, err
				}
				a.turns[k] = append(a.turns[k], ns)
			}
		}
	}
	for _, a := range all {
		for k, s := range subjects {
			results = append(results, o.result(s, a, by, k))
		}
	}
	return results, nil
}

// turn is the CPU time of a decision in ns.
func (o Options) turn(s *subject, a *asked) (float64, error) {
	s.decide(a, o.Decisions/10) // what the other's turn has evicted
	before, err := proc.SelfCPU()
	if err != nil {
		return 0, err
	}
	s.decide(a, o.Decisions)
	after, err := proc.SelfCPU()
	return float64(after-before) / float64(o.Decisions), err
}

func (o Options) result(s *subject, a *asked, by string, k int) report.Result {
	r := report.Result{
		Group: "overrides", Workload: "by " + by + ", " + a.what, Limiter: kinds[k].name,
		Setup: fmt.Sprintf("1000/s, burst 2000; %d overrides of %d limits; %d clients, each as often", s.overrides, min(limits, s.overrides), o.Clients),
		Keys:  int64(a.of), Requests: int64(o.Decisions * len(a.turns[k])),
		NsPerOp: new(report.Median(a.turns[k])), RSSBytes: &s.rss, PlannedBytes: &s.planned,
	}
	if k > 0 {
		quotients := slices.Clone(a.turns[0])
		for i := range quotients {
			quotients[i] /= a.turns[k][i]
		}
		r.Speedup = new(report.Median(quotients))
	}
	return r
}
