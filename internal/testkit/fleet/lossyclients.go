package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket"
)

// LossyRules are what Lossy tests: each algorithm, and those that can count denials also so.
func LossyRules() []fastlimit.RuleConfig {
	return []fastlimit.RuleConfig{
		{Name: "leaky", Algorithm: fastlimit.LeakyBucket},
		{Name: "token", Algorithm: fastlimit.TokenBucket},
		{Name: "window", Algorithm: fastlimit.FixedWindow},
		{Name: "window-denied", Algorithm: fastlimit.FixedWindow, CountDenied: true},
		{Name: "sliding", Algorithm: fastlimit.SlidingWindow},
		{Name: "sliding-denied", Algorithm: fastlimit.SlidingWindow, CountDenied: true},
		{Name: "log", Algorithm: fastlimit.SlidingLog},
	}
}

// setLimit gives a rule a random limit. All its requests are checked exactly.
func setLimit(c *fastlimit.RuleConfig, rng *rand.Rand) {
	c.Strict = true
	c.Rate = fastlimit.Rate{N: 2 + rng.Uint64N(24), Per: time.Second + time.Duration(rng.Int64N(1e6))*time.Microsecond}
	switch c.Algorithm {
	case fastlimit.LeakyBucket, fastlimit.TokenBucket:
		c.Burst = 1 + rng.Uint64N(c.Rate.N) // a full bucket leaks within a period
	case fastlimit.SlidingWindow:
		c.Rate.Per = c.Rate.Per.Truncate(time.Second / 16)
	}
}

// lossyTimeout is how long nodes wait for the store.
const lossyTimeout = 50 * time.Millisecond

// lossyNodes are limiters with the same rules. Each of them reaches the store by a lossy way.
type lossyNodes struct {
	fleet    Fleet
	limiters []*fastlimit.Limiter
	ways     []*lossy
	clients  map[string]*lossyClient // by the name of the bucket
}

// lossyClient is a client of one rule. It has one request in flight at a time.
type lossyClient struct {
	key   []byte
	rules []*fastlimit.Rule // the rule at the nodes that the client asks
	rng   *rand.Rand
	tally *lossyTally // of all clients of the rule
	back  chan bool   // whether the store has carried a refund out

	mu     sync.Mutex
	oracle oracle // guarded by mu
}

func (c *lossyClient) charge(from, to time.Duration, units uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.oracle.charge(from, to, units)
}

func (c *lossyClient) refund(from, to time.Duration, units uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.oracle.refund(from, to, units)
}

func (c *lossyClient) fits(units uint64, now time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.oracle.fits(units, now)
}

// lossyTally counts requests under one rule.
type lossyTally struct {
	conform, edge, wrong    atomic.Int64 // edge: made at the moment from which on they conform
	exact, degraded, denied atomic.Int64 // denied: those that do not conform
	refunded                atomic.Int64 // requests whose units are known to be back
}

// tested reports whether limits were reached, and the store decided, and nodes without it.
func (c *lossyTally) tested() bool {
	return c.edge.Load() > 0 && c.exact.Load() > 0 && c.degraded.Load() > 0 && c.denied.Load() > 0 && c.refunded.Load() > 0
}

// Lossy has clients ask one, two and three nodes, which keep limits in a store that each of them
// reaches by a lossy way. Whatever gets lost, a client is denied only if what it may have
// been charged with explains it: the units that were admitted, by the store or in its place,
// those of operations that came twice, and denied ones where they count. Units that were given
// back count no more for a client of one node, if the store was told; to other nodes they may
// still count. Limits follow from seed.
func (f Fleet) Lossy(t *testing.T, seed uint64, rules ...fastlimit.RuleConfig) {
	t.Helper()
	n := f.lossyNodes(t, seed, rules)
	var all sync.WaitGroup
	for i := range rules {
		all.Go(func() { n.run(t, i) })
	}
	all.Wait()
	for _, way := range n.ways {
		way.pending.Wait()
	}
}

func (f Fleet) lossyNodes(t *testing.T, seed uint64, rules []fastlimit.RuleConfig) *lossyNodes {
	t.Helper()
	const nodes = 3
	clients := 36 + int(f.Decisions/2500)
	rng := rand.New(rand.NewPCG(seed, 0))
	n := &lossyNodes{fleet: f, clients: map[string]*lossyClient{}}
	server := f.Server
	f.Server = func(t testing.TB, timeout time.Duration) func() bucket.Store {
		open := server(t, timeout)
		return func() bucket.Store {
			way := &lossy{Store: open(), late: 3 * timeout, rng: rand.New(rand.NewPCG(rng.Uint64(), 1)), doubles: n.double, settled: n.settled}
			n.ways = append(n.ways, way)
			return way
		}
	}
	rules = slices.Clone(rules)
	for i := range rules {
		setLimit(&rules[i], rng)
	}
	n.limiters = f.nodes(t, nodes, lossyTimeout, fastlimit.Config{Rules: rules})
	begin := n.now()
	for i, rule := range rules {
		tally := new(lossyTally)
		for j := range clients {
			name := fmt.Sprint("client ", j)
			c := &lossyClient{key: []byte(name), rng: rand.New(rand.NewPCG(rng.Uint64(), 2)), tally: tally, back: make(chan bool, 1), oracle: newOracle(rule, lossyTimeout, begin)}
			for _, lim := range n.limiters[:1+j%nodes] {
				c.rules = append(c.rules, lim.Rules()[i])
			}
			n.clients[rule.Name+":"+strconv.Quote(name)] = c
		}
	}
	for i, lim := range n.limiters { // a node learns the store's time from its first answer
		r := lim.Rules()[0]
		for r.Take(context.Background(), r.BytesKey([]byte("first")), 1).Degraded {
			time.Sleep(lossyTimeout)
		}
		n.ways[i].armed.Store(true)
	}
	return n
}

// now is the server's time since 1970.
func (n *lossyNodes) now() time.Duration { return n.serverTime(time.Now()) }

func (n *lossyNodes) serverTime(at time.Time) time.Duration {
	return time.Duration(at.UnixNano()).Truncate(time.Microsecond) + n.fleet.Ahead
}

// double charges a client for an operation that comes twice. The second one is
// carried out before its patience ends, or not at all.
func (n *lossyNodes) double(op *bucket.Op) {
	if c := n.clients[op.Key]; c != nil && op.Kind == bucket.Take {
		c.charge(n.serverTime(op.At), n.serverTime(op.At.Add(op.Patience)), op.Count*op.Cost/op.Shape.Unit())
	}
}

// settled tells a client what became of a refund.
func (n *lossyNodes) settled(op *bucket.Op, err error) {
	if c := n.clients[op.Key]; c != nil && op.Kind == bucket.Refund {
		select {
		case c.back <- err == nil:
		default: // nobody waits for it
		}
	}
}

// run has the clients of a rule ask, for some time and until that has tested enough.
func (n *lossyNodes) run(t *testing.T, rule int) {
	t.Helper()
	var running sync.WaitGroup
	var tally *lossyTally
	begin, r := time.Now(), n.limiters[0].Rules()[rule]
	for _, c := range n.clients {
		if c.rules[0] != r {
			continue
		}
		tally = c.tally
		running.Go(func() {
			for time.Since(begin) < 2*atLeast || tally.conform.Load() < n.fleet.Decisions || !tally.tested() {
				n.ask(t, c)
			}
		})
	}
	running.Wait()
	config := r.Config()
	t.Logf("%s, %v, burst %d: %d conforming requests, %d of them as soon as they do, %d denied; %d admitted by the store, %d decided without it, %d others denied; %d given back",
		config.Name, config.Rate, config.Burst, tally.conform.Load(), tally.edge.Load(), tally.wrong.Load(), tally.exact.Load(), tally.degraded.Load(), tally.denied.Load(), tally.refunded.Load())
}

// wait waits until so many units fit, and reports whether they did not yet.
func (n *lossyNodes) wait(c *lossyClient, units uint64) bool {
	now := n.now()
	fits := c.fits(units, now)
	time.Sleep(fits - now)
	return fits > now
}

// ask has a client make a request: mostly as soon as it conforms, else at once, after
// some time, or shortly before a period ends. Some hang up, and some give back what they got.
func (n *lossyNodes) ask(t *testing.T, c *lossyClient) {
	t.Helper()
	rng := c.rng
	r := c.rules[rng.IntN(len(c.rules))]
	config := r.Config()
	units, waited := 1+rng.Uint64N(min(4, config.Burst)), false // without a burst that is the limit
	switch rng.IntN(32) {
	case 0, 1, 2, 3: // at once
	case 4, 5:
		time.Sleep(time.Duration(rng.Int64N(int64(config.Rate.Per / 4))))
	case 6, 7, 8:
		time.Sleep(config.Rate.Per - n.now()%config.Rate.Per - time.Duration(rng.Int64N(int64(2*lossyTimeout))))
	case 9: // a bucket may have held less than the oracle knows of: until both hold nothing
		n.wait(c, config.Burst)
	default:
		waited = n.wait(c, units)
	}
	ctx := context.Background()
	if rng.IntN(64) == 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Duration(rng.Int64N(int64(lossyTimeout))))
		defer stop()
	}
	from := n.now()
	fits := c.fits(units, from)
	d := r.Take(ctx, r.BytesKey(c.key), units)
	hungUp := ctx.Err() != nil && !d.Allowed
	if !d.Allowed { // its own operation may have come twice, the second one first
		fits = c.fits(units, from)
	}
	switch to := n.now(); {
	case hungUp: // the store may still charge it
		c.charge(from, to+lossyTimeout, units)
	case d.Allowed, d.Degraded: // the store may have charged what was denied in its place
		c.charge(from, to, units)
	case config.CountDenied && d.Stage != fastlimit.StageTable: // a table that denies counts nothing
		c.charge(from, to, units)
	}
	if d.Allowed && rng.IntN(32) == 0 {
		n.giveBack(t, c, r, units, from, d.Degraded)
	}
	switch {
	case hungUp:
		return
	case d.Degraded:
		c.tally.degraded.Add(1)
	case d.Allowed:
		c.tally.exact.Add(1)
	}
	if fits > from {
		if !d.Allowed {
			c.tally.denied.Add(1)
		}
		return
	}
	c.tally.conform.Add(1)
	if waited {
		c.tally.edge.Add(1)
	}
	if !d.Allowed && c.tally.wrong.Add(1) < 4 {
		t.Errorf("P1: %s, %v, burst %d: %d units denied that fit, %v after a period began: %+v", config.Name, config.Rate, config.Burst, units, from%config.Rate.Per, d)
	}
}

// giveBack refunds units that were taken since from. Whether the store has charged what was admitted in
// its place nobody knows.
func (n *lossyNodes) giveBack(t *testing.T, c *lossyClient, r *fastlimit.Rule, units uint64, from time.Duration, degraded bool) {
	select {
	case <-c.back: // of what nobody waited for
	default:
	}
	r.Refund(r.BytesKey(c.key), units)
	if len(c.rules) > 1 || degraded {
		return
	}
	select {
	case told := <-c.back:
		if told {
			c.refund(from, n.now(), units)
			c.tally.refunded.Add(1)
		}
	case <-time.After(time.Minute):
		t.Errorf("%s: a refund was never sent", c.rules[0].Config().Name)
		c.tally.refunded.Add(1)
	}
}
