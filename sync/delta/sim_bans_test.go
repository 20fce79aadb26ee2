package delta

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/sketch"
)

// simBans are the bans of a simulated cluster as they should be.
type simBans struct {
	*sim
	clients uint64       // who may be banned
	origins []*originBan // every ban that a node has begun by itself
	lifts   int          // bans that an operator has ended where they began
	refused int          // bans of others that an operator has ended where they were applied
	applied int

	restored int // lives with a state file
}

// originBan is a ban that one life of a node has begun.
type originBan struct {
	by         *simNode
	serial     uint64
	client     uint64
	begun, end time.Duration // of the simulation
	left       time.Duration // by the node's clock, when it began
	lifted     bool
}

// banModel is the table of bans of one life of a node: a [Banner].
type banModel struct {
	*simBans
	node    *simNode
	accepts bool
	most    time.Duration // the rule's own limit of a ban
	serial  uint64
	table   map[sketch.Digest]modelBan
	refuses map[*originBan]bool // what an operator has ended here
	freed   map[uint64]time.Duration
}

type modelBan struct {
	until time.Duration // by the node's clock
	mine  time.Duration // until when by itself
}

func (b *simBans) boot(n *simNode, c *Config) {
	b.sim = n.sim
	n.bans = &banModel{
		simBans: b, node: n, accepts: b.rng.IntN(5) > 0, most: []time.Duration{10 * time.Second, time.Hour}[b.rng.IntN(2)],
		table: map[sketch.Digest]modelBan{}, refuses: map[*originBan]bool{}, freed: map[uint64]time.Duration{},
	}
	if was := b.nodes[n.index]; was != nil && b.rng.IntN(2) == 0 { // it has a state file
		n.bans.restore(was.bans)
	}
	c.Banners, c.AcceptBans = []Banner{n.bans}, n.bans.accepts
}

// restore takes over what a life of the node before knew of bans.
func (m *banModel) restore(was *banModel) {
	m.restored++
	m.accepts, m.most = was.accepts, was.most
	for d, ban := range was.table {
		ban.until += m.node.clock() - was.node.clock()
		ban.mine += m.node.clock() - was.node.clock()
		m.table[d] = ban
	}
	for _, o := range m.origins {
		if banned, own := m.banned(o.client); o.by == was.node && !o.lifted && o.end > m.now() && banned && own {
			o.by = m.node
			for _, n := range m.nodes { // which hear of it once more
				if n != nil {
					delete(n.bans.refuses, o)
				}
			}
			o.end = m.now() + time.Duration(float64(m.table[testDigest(o.client)].until-m.node.clock())/m.node.drift)
		}
	}
}

// recall has the new life tell what it has restored, in an order of its own.
func (m *banModel) recall() {
	m.node.state.Recall(m.node.clock())
	own := &m.node.state.bans
	m.serial = own.serial
	for _, o := range m.origins {
		if at, ok := own.byID[banID{m.Identity(), testDigest(o.client)}]; ok && o.by == m.node {
			o.serial = own.list[at].serial
		}
	}
}

func (*banModel) Name() string     { return "bans" }
func (*banModel) Identity() uint64 { return clusterHash("bans") }

// Running implements Banner.
func (m *banModel) Running() iter.Seq[Ban] {
	return func(yield func(Ban) bool) {
		for client := range m.clients {
			d := testDigest(client)
			if banned, own := m.banned(client); banned && own && !yield(Ban{Digest: d, Name: fmt.Sprint("client ", client), Left: m.table[d].until - m.node.clock(), Times: 1}) {
				return
			}
		}
	}
}

// BanFor implements Banner.
func (m *banModel) BanFor(b Ban) (granted, runs time.Duration) {
	if !m.accepts {
		m.t.Errorf("%s accepts no bans and gets one", m.node.name)
	}
	if name, ok := m.named(b.Digest); !ok || b.Name != name {
		m.t.Errorf("client %q is called %q", name, b.Name)
	}
	left := min(b.Left, m.most)
	if until := m.node.clock() + left; until > m.table[b.Digest].until {
		m.table[b.Digest] = modelBan{until, m.table[b.Digest].mine}
		m.applied++
	}
	return left, m.table[b.Digest].until - m.node.clock()
}

// EndBan implements Banner.
func (m *banModel) EndBan(d sketch.Digest) (ended bool) {
	b := m.table[d]
	if b.mine == b.until {
		return false
	}
	m.table[d] = modelBan{b.mine, b.mine}
	return b.until > m.node.clock()
}

func (b *simBans) named(d sketch.Digest) (string, bool) {
	for client := range b.clients {
		if testDigest(client) == d {
			return fmt.Sprint("client ", client), true
		}
	}
	return "", false
}

// banned reports whether a client is banned, and whether by a ban of the node's own.
func (m *banModel) banned(client uint64) (banned, own bool) {
	b := m.table[testDigest(client)]
	return b.until > m.node.clock(), b.mine > m.node.clock()
}

// ban has the node ban a client by itself, unless it is banned.
func (m *banModel) ban(client uint64, left time.Duration) {
	if banned, _ := m.banned(client); banned || !m.node.up {
		return
	}
	m.serial++
	d := testDigest(client)
	end := m.node.clock() + left
	m.table[d] = modelBan{end, end}
	m.node.state.Banned(m.Identity(), Ban{Digest: d, Name: fmt.Sprint("client ", client), Left: left, Times: 1}, m.node.clock())
	m.origins = append(m.origins, &originBan{
		by: m.node, serial: m.serial, client: client, left: left,
		begun: m.now(), end: m.now() + time.Duration(float64(left)/m.node.drift),
	})
}

// unban is an operator's: it ends all bans of a client here.
func (m *banModel) unban(client uint64) {
	banned, own := m.banned(client)
	if !banned || !m.node.up {
		return
	}
	left := time.Duration(0)
	if own {
		left = m.table[testDigest(client)].until - m.node.clock()
	}
	delete(m.table, testDigest(client))
	m.freed[client] = m.now()
	for _, o := range m.origins {
		if o.client != client || o.end <= m.now() {
			continue
		}
		if o.by == m.node {
			o.lifted = true
			m.lifts++
		} else if m.node.heard(o) {
			m.refuses[o] = true
			m.refused++
		}
	}
	m.node.state.Unbanned(m.Identity(), testDigest(client), left, m.node.clock())
}

// heard reports whether the node has been told of a ban.
func (n *simNode) heard(o *originBan) bool {
	m := n.state.mirrors[o.by.name]
	return m != nil && m.incarnation == o.by.incarnation && m.claims.known[banID{clusterHash("bans"), testDigest(o.client)}].serial >= o.serial
}

// slack is how much later than where it began a ban may end elsewhere: the time on the way
// of the fastest packet, and what the clocks differ by while it lasts.
func (b *simBans) slack(o *originBan) time.Duration {
	late := b.network.delay + b.network.jitter + 2*time.Millisecond
	if b.skew {
		late += time.Duration(float64(o.left) * (fastest/(2-fastest) - 1))
	}
	return late
}

// check reports a client that is banned where nothing justifies it: at every node each ban
// is its own, or that of another node which has not ended, and which no operator has ended
// here. Bans that were lifted where they began justify nothing when all is quiet.
func (b *simBans) check(quiet bool) error {
	for _, n := range b.nodes {
		if n == nil || !n.up {
			continue
		}
		for client := range b.clients {
			if banned, _ := n.bans.banned(client); banned && !n.bans.justified(client, quiet) {
				return fmt.Errorf("%v: %s bans client %d, which nobody has banned", b.now(), n.name, client)
			}
		}
	}
	return nil
}

func (m *banModel) justified(client uint64, quiet bool) bool {
	for _, o := range m.origins {
		switch {
		case o.client != client || m.refuses[o] || o.lifted && (quiet && o.by.up || o.by == m.node):
		case o.by == m.node && m.now() < o.end+time.Millisecond:
			return true
		case o.by != m.node && m.accepts && m.now() < o.end+m.slack(o):
			return true
		}
	}
	return false
}

// missing reports a running ban of a node that is up which another does not apply although it
// accepts bans and has had the time to hear of it.
func (b *simBans) missing() error {
	for _, o := range b.origins {
		if o.lifted || !o.by.up || o.end < b.now()+b.slack(o)+clockWindow {
			continue
		}
		for _, n := range b.nodes {
			if n == nil || !n.up || n == o.by || !n.bans.accepts {
				continue
			}
			banned, _ := n.bans.banned(o.client)
			if freed, ok := n.bans.freed[o.client]; !banned && n.bans.most > o.left && (!ok || freed < o.begun) {
				return fmt.Errorf("%v: %s does not ban client %d, whom %s has banned until %v", b.now(), n.name, o.client, o.by.name, o.end)
			}
		}
	}
	return nil
}

// act lets time pass in which nodes ban and operators unban.
func (b *simBans) act(rng *rand.Rand) {
	anyone := func() (*banModel, uint64) {
		n := b.nodes[rng.IntN(len(b.nodes))]
		if n == nil {
			return nil, 0
		}
		return n.bans, rng.Uint64N(b.clients)
	}
	lengths := []time.Duration{time.Second, 5 * time.Second, 20 * time.Second, 2 * time.Minute}
	for b.now() < b.duration {
		b.run(b.now() + time.Duration(rng.Int64N(int64(400*time.Millisecond))))
		m, client := anyone()
		switch {
		case m == nil:
		case rng.IntN(3) > 0:
			m.ban(client, lengths[rng.IntN(len(lengths))])
		case len(b.origins) > 0: // somewhere, or where it began
			if o := b.origins[rng.IntN(len(b.origins))]; rng.IntN(2) == 0 {
				m.unban(o.client)
			} else {
				o.by.bans.unban(o.client)
			}
		}
		if err := b.check(false); err != nil {
			b.t.Fatal(err)
		}
	}
}

// TestBansSimulation: in clusters of 2 to 30 nodes with all that may go wrong, every ban ends
// at its time everywhere, one that an operator has ended does not come back, and soon
// after the last fault all who accept bans have all of them.
func TestBansSimulation(t *testing.T) {
	t.Parallel()
	seeds := testkit.Size(16, 60)
	if testing.Short() {
		seeds = 8
	}
	for part := range 4 {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			for seed := part; seed < seeds; seed += 4 {
				synctest.Test(t, func(t *testing.T) {
					rng := newRand(uint64(seed) ^ 1<<41)
					c := randomSim(rng, []int{2, 3, 3, 10, 30}[rng.IntN(5)])
					c.flood, c.duration, c.bans = 0, 30*time.Second, &simBans{clients: 24}
					if rng.IntN(2) == 0 {
						c.network.replay = 0.05
					}
					if c.nodes == 30 {
						c.interval = 300 * time.Millisecond
					}
					simulateBans(t, c, rng, seed)
				})
			}
		})
	}
}

func simulateBans(t *testing.T, c simConfig, rng *rand.Rand, seed int) {
	t.Helper()
	s := newSim(t, c, uint64(seed))
	b := c.bans
	b.act(rng)
	s.quiet = true
	s.run(max(s.healed, s.now()) + settled + repeatEvery + 3*time.Second)
	for range 40 { // and to the end of most
		if err := b.check(true); err != nil {
			t.Fatalf("seed %d: %v: %+v", seed, err, c)
		}
		if err := b.missing(); err != nil {
			t.Fatalf("seed %d: %v: %+v", seed, err, c)
		}
		s.run(s.now() + 3*time.Second)
	}
	t.Logf("seed %d: %d nodes, %d lives, %d bans, %d lifted, %d refused, %d applied, %d restored", seed, c.nodes, len(s.lives), len(b.origins), b.lifts, b.refused, b.applied, b.restored)
}
