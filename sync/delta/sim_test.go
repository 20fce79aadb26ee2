package delta

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket/memstore"
	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// simConfig is a cluster and what happens to it.
type simConfig struct {
	nodes, slots int
	rate, burst  uint64 // units/s, and units
	theta        float64
	interval     time.Duration // of ticks
	duration     time.Duration // of traffic
	network      simNetwork
	apart        bool          // nothing is exchanged at all
	skew         bool          // clocks of the nodes differ
	restarts     int           // nodes that die and come back
	late         bool          // the last node joins half-way
	partition    time.Duration // from a third of the duration on
	alone        bool          // every node is a side of the partition
	flood        int           // requests/s of clients that nobody tracks
	small        bool          // few bytes per tick
	bans         *simBans      // nil: nobody is banned
}

func (c *simConfig) rule() fastlimit.RuleConfig {
	return fastlimit.RuleConfig{Name: "per-ip", Rate: fastlimit.Rate{N: c.rate, Per: time.Second}, Burst: c.burst, EscalateAt: &c.theta}
}

// sim is a cluster of real limiters and States around one exact store, in fake
// time, on one goroutine.
type sim struct {
	simConfig
	t       testing.TB
	rng     *rand.Rand
	start   time.Time
	events  simEvents
	store   *memstore.Store
	secret  [32]byte
	nodes   []*simNode // alive or down, by index
	lives   []*simNode // every incarnation ever
	clients []*simClient
	quiet   bool          // traffic has ended
	healed  time.Duration // when the last fault is over

	lag    time.Duration // L: the longest until a hit was charged everywhere
	lost   uint64        // the most units of a client and epoch that a peer was never sent
	hid    uint64        // the most that a table hid in an epoch, and that waited
	deaths int           // lives that ended with something unsent
}

// simNode is one life of one node.
type simNode struct {
	sim         *sim
	index       int
	name        string
	incarnation uint64
	up          bool
	limiter     *fastlimit.Limiter
	rule        *fastlimit.Rule
	state       *State
	offset      time.Duration // of its clock
	drift       float64
	epoch       int // of its table
	epochBegan  time.Duration
	marks       markClock

	counted map[uint64]uint64              // units by position
	pending map[*simNode][]hit             // of others, that it has not received
	lost    map[lostKey]uint64             // units that it will never hear of
	charged map[*simNode]map[uint64]uint64 // units, by whose they are and position
	from    *simNode                       // whose packet is being merged
	bans    *banModel                      // nil: bans nobody
}

type lostKey struct {
	from  *simNode
	pos   uint64
	epoch int
}

// hit is one that a node counted in a slot.
type hit struct {
	at                     time.Duration
	slot, epoch            int
	gen, count, units, pos uint64 // count: afterwards
}

// chargeSpy is a rule that notes what is charged.
type chargeSpy struct {
	Rule
	node *simNode
}

func (c chargeSpy) ChargePeer(pos, units uint64) {
	n := c.node
	if n.charged[n.from] == nil {
		n.charged[n.from] = map[uint64]uint64{}
	}
	n.charged[n.from][pos] += units
	c.Rule.ChargePeer(pos, units)
}

// fastest is how fast a clock is at most.
const fastest = 1.05

type simEvent struct {
	at  time.Duration
	seq int
	do  func()
}

type simEvents struct {
	list []simEvent
	seq  int
}

func (e *simEvents) Len() int { return len(e.list) }
func (e *simEvents) Less(i, j int) bool {
	a, b := &e.list[i], &e.list[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}
func (e *simEvents) Swap(i, j int) { e.list[i], e.list[j] = e.list[j], e.list[i] }
func (e *simEvents) Push(x any)    { e.list = append(e.list, x.(simEvent)) }
func (e *simEvents) Pop() any {
	last := len(e.list) - 1
	x := e.list[last]
	e.list = e.list[:last]
	return x
}

// after runs do that much later.
func (s *sim) after(d time.Duration, do func()) {
	s.events.seq++
	heap.Push(&s.events, simEvent{at: s.now() + max(d, 0), seq: s.events.seq, do: do})
}

func (s *sim) now() time.Duration { return time.Since(s.start) }

// run lets time pass until then.
func (s *sim) run(until time.Duration) {
	for s.events.Len() > 0 && s.events.list[0].at <= until {
		e := heap.Pop(&s.events).(simEvent)
		if d := e.at - s.now(); d > 0 {
			time.Sleep(d)
		}
		e.do()
	}
	if d := until - s.now(); d > 0 {
		time.Sleep(d)
	}
}

func newSim(t testing.TB, c simConfig, seed uint64) *sim {
	s := &sim{
		simConfig: c, t: t, rng: newRand(seed), start: time.Now(), secret: [32]byte{1, byte(seed)},
		store: memstore.New(memstore.Config{}), nodes: make([]*simNode, c.nodes),
	}
	t.Cleanup(func() { _ = s.store.Close(context.Background()) })
	s.network.init(s)
	for i := range c.nodes {
		if c.late && i == c.nodes-1 {
			s.after(c.duration/2, func() { s.boot(i) })
		} else {
			s.boot(i)
		}
	}
	for range c.restarts {
		i := s.rng.IntN(c.nodes)
		s.after(time.Duration(s.rng.Int64N(int64(c.duration))), func() { s.crash(i, true) })
	}
	if c.partition > 0 {
		s.after(c.duration/3, s.split)
	}
	return s
}

// unwell records that a fault lasts for so long from now on.
func (s *sim) unwell(lasts time.Duration) { s.healed = max(s.healed, s.now()+lasts) }

// boot starts a new life of node i.
func (s *sim) boot(i int) {
	n := &simNode{
		sim: s, index: i, name: fmt.Sprintf("node-%d", i), incarnation: s.rng.Uint64(), up: true, drift: 1,
		counted: map[uint64]uint64{}, pending: map[*simNode][]hit{}, lost: map[lostKey]uint64{}, charged: map[*simNode]map[uint64]uint64{},
	}
	if s.skew {
		n.offset = time.Duration(s.rng.Int64N(int64(1000 * time.Hour)))
		n.drift = 2 - fastest + 2*(fastest-1)*s.rng.Float64()
	}
	var err error
	n.limiter, err = fastlimit.New(fastlimit.Config{
		Rules: []fastlimit.RuleConfig{s.rule()}, Memory: limit.MinMemory + int64(s.slots*sketch.TalkerSlotBytes), Store: s.store,
		TopTalkers: s.slots, Nodes: s.simConfig.nodes, Secret: s.secret,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	n.rule, _ = n.limiter.Rule("per-ip")
	c := Config{Cluster: "sim", Node: n.name, Incarnation: n.incarnation, Rules: []Rule{chargeSpy{(*engine.Rule)(n.rule), n}}, MaxNodes: s.simConfig.nodes}
	if s.small {
		c.PacketSize, c.MaxBytes = minPacketSize, 3*minPacketSize
	}
	if s.bans != nil {
		s.bans.boot(n, &c)
	}
	if n.state, err = New(c); err != nil {
		s.t.Fatal(err)
	}
	if n.bans != nil {
		n.bans.recall()
	}
	s.nodes[i] = n
	s.lives = append(s.lives, n)
	for _, o := range s.nodes {
		if o != nil && o != n && o.up {
			s.network.meet(o, n)
			n.catchUp(o)
		}
	}
	s.after(time.Duration(s.rng.Int64N(int64(s.interval))), n.beat)
}

func (n *simNode) beat() {
	if n.up {
		n.tick()
		n.sim.after(time.Duration(float64(n.sim.interval)/n.drift), n.beat)
	}
}

// clock is the node's own.
func (n *simNode) clock() time.Duration {
	return n.offset + time.Duration(float64(n.sim.now())*n.drift)
}

func (n *simNode) tick() {
	n.limiter.Advance()
	var packets [][]byte
	size := 0
	for _, p := range slices.Concat(n.state.TellBans(n.clock()), n.state.Tick(n.clock())) {
		packets = append(packets, append([]byte(nil), p...))
		size += len(p)
	}
	if size > n.state.config.MaxBytes {
		n.sim.t.Errorf("a tick of %d bytes", size)
	}
	if n.marks.tick(n.clock(), n.rule.TopTalkers().Epoch); n.marks.began != n.epochBegan {
		n.epochBegan = n.marks.began
		n.epoch++
	}
	n.sim.hid = max(n.sim.hid, n.state.rules[0].maxHidden())
	for _, o := range n.sim.nodes {
		if o == nil || o == n || !o.up {
			continue
		}
		for _, p := range packets {
			n.sim.network.send(n, o, p)
		}
	}
}

func (n *simNode) receive(from *simNode, packet []byte) {
	if !n.up {
		return
	}
	n.from = from
	_ = n.state.Receive(packet, n.clock()) // rejected: not a member at present
	n.settle(from)
}

func addrOf(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

func (s *sim) position(a netip.Addr) uint64 {
	h, err := sketch.NewHasher(s.secret, "per-ip")
	if err != nil {
		s.t.Fatal(err)
	}
	b := a.As4()
	return h.Word4(uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])).Pos
}
