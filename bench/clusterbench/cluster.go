// Package clusterbench measures the traffic by which nodes tell each other of their
// top talkers: bytes and packets for each peer by the number of active clients, and
// how much a peer is not told of. A real limiter and the real exchange run in memory and in
// simulated time, so that the figures are of the traffic, not of the machine.
package clusterbench

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bench/defaults"
	"github.com/fastlimit/fastlimit/bench/report"
	"github.com/fastlimit/fastlimit/bench/workload"
	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/sketch"
	"github.com/fastlimit/fastlimit/sync/delta"
)

// Options configure [Run]. Zero fields mean defaults.
type Options struct {
	Keys       []int64         `kong:"-"` // numbers of active clients; nil means 10^3, 10^5 and 10^6
	PerSecond  int             `name:"rate" default:"200000" help:"Requests per second at the measured node."`
	Duration   time.Duration   `default:"30s" help:"Of the traffic, simulated."`
	Interval   time.Duration   `default:"100ms" help:"Of the exchange."`
	MaxBytes   int             `default:"16384" help:"Ceiling in bytes for each peer and interval."`
	TopTalkers int             `default:"8192" help:"Top talkers that are tracked."`
	Nodes      int             `kong:"-"` // that the limiter is planned for; 0 means 32
	Seed       uint64          `kong:"-"`
	Progress   report.Progress `kong:"-"`
}

func (o Options) withDefaults() Options {
	if o.Keys == nil {
		o.Keys = []int64{1e3, 1e5, 1e6}
	}
	o.Nodes = cmp.Or(o.Nodes, 32)
	return defaults.Of(o)
}

const (
	maxKeys  = 1 << 24
	ruleName = "bench"
)

// workloads choose the next of n clients.
var workloads = []struct {
	name string
	next func(rng *rand.Rand, n int64) func() int64
}{
	{"zipf-1.1", func(rng *rand.Rand, n int64) func() int64 {
		z, err := workload.NewZipf(rng, 1.1, int(n))
		if err != nil {
			panic("BUG: " + err.Error())
		}
		return func() int64 { return int64(z.Next() - 1) }
	}},
	{"even", func(rng *rand.Rand, n int64) func() int64 { return func() int64 { return rng.Int64N(n) } }},
}

// Check reports what is wrong with the options.
func (o Options) Check() error {
	o = o.withDefaults()
	for _, n := range o.Keys {
		if n < 2 || n > maxKeys {
			return fmt.Errorf("bench: %d clients: want 2 to %d", n, maxKeys)
		}
	}
	if o.PerSecond < 1 || o.PerSecond > 1e9 || o.Interval < time.Millisecond || o.Duration < o.Interval {
		return fmt.Errorf("bench: %d requests/s for %v, told every %v: want 1 to 10^9, and 1 ms or more", o.PerSecond, o.Duration, o.Interval)
	}
	_, err := newPair(o, 2)
	return err
}

// Run measures every workload with every number of clients. When ctx ends it
// returns what it has, and the cause.
func Run(ctx context.Context, o Options) (results []report.Result, err error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	total := len(workloads) * len(o.Keys)
	for _, w := range workloads {
		for _, n := range o.Keys {
			o.Progress.Tell(len(results), total, "cluster: %s, %.0e clients", w.name, float64(n))
			rng := rand.New(rand.NewPCG(o.Seed, uint64(n)))
			r, err := measure(ctx, o, w.name, n, w.next(rng, n))
			if err != nil {
				return results, err
			}
			results = append(results, r)
		}
	}
	o.Progress.Tell(total, total, "done")
	return results, nil
}

func measure(ctx context.Context, o Options, workload string, keys int64, next func() int64) (report.Result, error) {
	p, err := newPair(o, keys)
	if err != nil {
		return report.Result{}, err
	}
	if err := p.run(ctx, next); err != nil {
		return report.Result{}, err
	}
	return p.result(workload)
}

// pair is the measured node and one peer.
type pair struct {
	Options
	keys     int64
	secret   [32]byte
	now      time.Duration
	clock    *fastlimit.ManualClock // of both nodes
	rule     *fastlimit.Rule        // of the measured node
	limiter  *fastlimit.Limiter
	from, to *delta.State

	counted []uint32          // by client: units that its node counted
	charged map[uint64]uint32 // by position: units that the peer charged
	before  delta.Stats       // of the measured node, before it was measured
}

// listener is the peer's rule, which notes what is charged.
type listener struct {
	delta.Rule
	charged map[uint64]uint32
}

// ChargePeer implements [delta.Rule].
func (l listener) ChargePeer(pos, units uint64) {
	l.charged[pos] += uint32(units)
	l.Rule.ChargePeer(pos, units)
}

func newPair(o Options, keys int64) (*pair, error) {
	p := &pair{Options: o, keys: keys, secret: [32]byte{1}, counted: make([]uint32, keys), charged: map[uint64]uint32{}, clock: new(fastlimit.ManualClock)}
	// The measured node first, then its peer.
	for _, name := range []string{"from", "to"} {
		lim, err := fastlimit.New(fastlimit.Config{
			Rules: []fastlimit.RuleConfig{{Name: ruleName, Rate: fastlimit.Rate{N: 100, Per: time.Second}, Burst: 200}},
			Clock: p.clock, Nodes: o.Nodes, TopTalkers: o.TopTalkers, Secret: p.secret,
		})
		if err != nil {
			return nil, err
		}
		var rule delta.Rule = listener{(*engine.Rule)(lim.Rules()[0]), p.charged}
		if p.from == nil {
			p.limiter, p.rule = lim, lim.Rules()[0]
			rule = (*engine.Rule)(p.rule)
		}
		state, err := delta.New(delta.Config{Cluster: "bench", Node: name, Incarnation: 1, MaxBytes: o.MaxBytes, Rules: []delta.Rule{rule}})
		if err != nil {
			return nil, err
		}
		p.from, p.to = cmp.Or(p.from, state), state
	}
	p.to.Join("from", 1, 0)
	return p, nil
}

// address is that of a client, in 10.0.0.0/8.
func address(client int64) uint32 { return 10<<24 + uint32(client) }

func (p *pair) key(client int64) fastlimit.Key {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], address(client))
	return p.rule.AddrKey(netip.AddrFrom4(b))
}

// run lets every client send one request, and then sends the traffic.
func (p *pair) run(ctx context.Context, next func() int64) error {
	for i := range p.keys {
		p.ask(ctx, i)
	}
	gap := time.Second / time.Duration(p.PerSecond)
	// In the first intervals every client is new to the peer, which is not what a
	// node sends in the long run.
	const settling = 10
	for i := range int(p.Duration/p.Interval) + settling {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if i == settling {
			p.before = p.from.Stats()
		}
		for range p.Interval / gap {
			p.now += gap
			p.ask(ctx, next())
		}
		p.clock.Set(p.now)
		p.limiter.Advance()
		for _, packet := range p.from.Tick(p.now) {
			if rejected := p.to.Receive(packet, p.now); rejected != nil {
				return fmt.Errorf("a node rejects the other's packet: %s", rejected.Reason)
			}
		}
	}
	return nil
}

func (p *pair) ask(ctx context.Context, client int64) {
	p.clock.Set(p.now)
	d := p.rule.Take(ctx, p.key(client), 1)
	if d.Stage != fastlimit.StageFilter && d.Stage != fastlimit.StageTable {
		p.counted[client]++
	}
}

// untold is the largest number of units of one client that the peer does not know
// of.
func (p *pair) untold() (most uint32, err error) {
	h, err := sketch.NewHasher(p.secret, ruleName)
	for i, n := range p.counted {
		most = max(most, n-p.charged[h.Word4(address(int64(i))).Pos])
	}
	return most, err
}

func (p *pair) result(workload string) (report.Result, error) {
	st := p.from.Stats()
	seconds := p.Duration.Seconds()
	most, err := p.untold()
	return report.Result{
		Group: "cluster", Workload: workload, Limiter: "fastlimit", Keys: p.keys, Requests: int64(seconds) * int64(p.PerSecond),
		Setup:       fmt.Sprintf("%d requests/s at one node; a table of %d, at most %d bytes every %v", p.PerSecond, p.TopTalkers, p.MaxBytes, p.Interval),
		SyncBytes:   new(float64(st.SentBytes-p.before.SentBytes) / seconds),
		SyncPackets: new(float64(st.SentPackets-p.before.SentPackets) / seconds),
		SyncBound:   new(float64(st.Rules[0].Hidden) / st.Rules[0].Epoch.Seconds()),
		SyncUntold:  new(float64(most) / p.now.Seconds()),
	}, err
}
