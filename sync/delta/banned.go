package delta

import (
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

const (
	// maxBans is how many bans a node sends at a time, and how many it remembers of another
	// node's.
	maxBans = 16 << 10

	// beatEvery is how often a node that has nothing to send sends an empty packet of bans,
	// by which the others date the next ones: see clockOf.
	beatEvery = time.Second
	// repeatEvery is how often each ban is sent again, if there is room, for nodes that
	// have joined since and for those that lost all packets before. Together with settled,
	// and one lost packet, all nodes agree within ten seconds.
	repeatEvery = 5 * time.Second
)

// again is the time from the first, second, … packet with a ban to the next one. Single
// packets get lost, and nodes that have just met believe none before settled.
var again = [...]time.Duration{300 * time.Millisecond, time.Second, settled}

// Ban is a client banned by a rule.
type Ban struct {
	Digest sketch.Digest
	Name   string        // the client's compact name, of at most 40 bytes
	Left   time.Duration // until its end
	Times  int           // how often it has been banned recently; for lists
}

// Banner is a rule whose bans the nodes exchange. Implementations are safe for concurrent
// use.
type Banner interface {
	Name() string     // of the rule, which stays when its limit changes
	Identity() uint64 // see [Rule]
	// Running returns the bans in force that this node began, without those of other nodes.
	Running() iter.Seq[Ban]
	// BanFor bans a client because another node has. granted is how long the ban may last
	// here, at most as long as this rule bans at all. A longer ban stays, and runs is how
	// long the client is banned then. Both are 0 if this rule bans nobody, or has no room.
	BanFor(Ban) (granted, runs time.Duration)
	// EndBan ends a ban of BanFor, and reports whether there was one. A ban that the rule
	// itself has begun continues, even if it is shorter.
	EndBan(sketch.Digest) (ended bool)
}

// ownBan is a ban of this node, or the end of one, and what was sent of it.
type ownBan struct {
	banID
	name   string
	times  uint64
	end    time.Duration // when it ends, or would have ended
	before time.Duration // when an earlier one that was sent would have ended, if that is later
	serial uint64
	lifted bool

	packets uint8         // with it, up to len(again)
	due     time.Duration // when the next one is
}

// inbox takes reports from requests. Its lock is held for an append only, so that no
// request waits for a tick.
type inbox struct {
	mu      sync.Mutex
	changes []ownBan // in their order; without the fields about sending
	lost    uint64
}

func (i *inbox) add(n *ownBan) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.changes) >= maxBans {
		i.lost++
		return
	}
	i.changes = append(i.changes, *n)
}

// take returns the reports that have come in, in their order. spare is used for the next
// ones.
func (i *inbox) take(spare []ownBan) (changes []ownBan, lost uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	changes, i.changes = i.changes, spare[:0]
	lost, i.lost = i.lost, 0
	return changes, lost
}

// Banned reports a ban that has begun at this node, as of now, so that the next TellBans
// sends it to the peers. Bans that another node reported must not be reported. Banned does
// not wait, and is for requests.
func (s *State) Banned(identity uint64, b Ban, now time.Duration) {
	s.inbox.add(ownBanOf(banID{identity, b.Digest}, &b, now))
}

// Unbanned reports that an operator has ended all bans of a client at this node. left is
// what was left of this node's own ban, 0 if it had none. The end of that ban is sent for
// as long as the ban would have lasted, so that no node that has yet to hear of the ban
// learns of the ban alone. What peers have reported about the client so far is not applied
// again; only a new ban is.
func (s *State) Unbanned(identity uint64, d sketch.Digest, left, now time.Duration) {
	s.inbox.add(&ownBan{banID: banID{identity, d}, lifted: true, end: now + left})
}

// Recall sends all bans in force of the current rules that have not been sent yet: those
// that a restart has kept, and those of a rule that now has another identity. Call it when
// the rules are new, after [New] and [State.Follow].
func (s *State) Recall(now time.Duration) {
	s.lock(now)
	defer s.mu.Unlock()
	s.drainLocked(now)
	for identity, rule := range s.banners {
		for b := range rule.Running() {
			id := banID{identity, b.Digest}
			if at, known := s.bans.byID[id]; !known || s.bans.list[at].lifted {
				s.bannedLocked(ownBanOf(id, &b, now), now)
			}
		}
	}
}

func ownBanOf(id banID, b *Ban, now time.Duration) *ownBan {
	return &ownBan{banID: id, name: b.Name, times: uint64(min(max(b.Times, 1), maxTimes)), end: now + b.Left}
}

// ownBans are the bans that this node sends.
type ownBans struct {
	list   []ownBan
	byID   map[banID]int // index in list
	serial uint64
	cursor int // where repeating continues
	most   int // of list

	began    time.Duration // start of this run: sent times count from here
	started  bool
	lastSent time.Duration
	bytes    int // of the last packets
	writer   banWriter
	spare    []ownBan
}

func newOwnBans(c *Config) ownBans {
	size := c.banBytes()
	return ownBans{byID: map[banID]int{}, most: c.maxBans, writer: newBanWriter(min(c.PacketSize, size), size)}
}

// drainLocked takes in the limiter's reports.
func (s *State) drainLocked(now time.Duration) {
	o := &s.bans
	changes, lost := s.inbox.take(o.spare)
	s.stats.Bans.Refused[bansUntold] += lost
	for i := range changes {
		if n := &changes[i]; n.lifted {
			s.unbannedLocked(n, now)
		} else {
			s.bannedLocked(n, now)
		}
	}
	clear(changes) // keeps no name alive
	o.spare = changes
}

func (s *State) bannedLocked(n *ownBan, now time.Duration) {
	if s.bans.put(n, now) {
		s.stats.Bans.Sent++
	} else {
		s.stats.Bans.Refused[bansUntold]++
	}
}

func (s *State) unbannedLocked(n *ownBan, now time.Duration) {
	for _, m := range s.mirrors {
		m.claims.suppress(n.banID)
	}
	if at, known := s.bans.byID[n.banID]; known {
		if b := &s.bans.list[at]; !b.lifted && b.end > now {
			b.lifted, b.name, b.end, b.packets, b.due = true, "", max(b.end, b.before), 0, now
			s.stats.Bans.UnbansSent++
		}
		return
	}
	// Peers may have it nevertheless, from before a restart, or by an earlier identity.
	if n.end > now && s.bans.put(n, now) {
		s.stats.Bans.UnbansSent++
	}
}

// put replaces what is sent about a client. It reports whether there is room.
func (o *ownBans) put(n *ownBan, now time.Duration) bool {
	at, known := o.byID[n.banID]
	if !known {
		if len(o.list) >= o.most {
			return false
		}
		at = len(o.list)
		o.list = append(o.list, ownBan{})
		o.byID[n.banID] = at
	}
	n.before = max(o.list[at].end, o.list[at].before)
	o.serial++
	n.serial, n.due = o.serial, now
	o.list[at] = *n
	return true
}

// follow forgets the bans of rules that are gone. Bans that operators have ended are still
// sent by the rule with the same name: renamed has its identity.
func (o *ownBans) follow(renamed map[uint64]uint64) {
	for i := range slices.Backward(o.list) { // drop moves the last one, which has already been visited
		b := o.list[i]
		to, stays := renamed[b.identity]
		if stays && to == b.identity {
			continue
		}
		o.drop(i)
		if stays && (b.lifted || b.before > b.end) {
			b.identity, b.lifted, b.name, b.end, b.packets = to, true, "", max(b.end, b.before), 0
			o.put(&b, 0)
		}
	}
}

// over removes a ban whose time is over. If an earlier one ended before its time, that end
// is sent until the earlier one would have ended: nodes may have heard of that ban alone.
func (o *ownBans) over(i int, now time.Duration) {
	if b := &o.list[i]; b.before > now {
		b.lifted, b.name, b.end, b.packets, b.due = true, "", b.before, 0, now
		return
	}
	o.drop(i)
}

// drop removes a ban.
func (o *ownBans) drop(i int) {
	last := len(o.list) - 1
	delete(o.byID, o.list[i].banID)
	if i != last {
		o.list[i] = o.list[last]
		o.byID[o.list[i].banID] = i
	}
	o.list[last] = ownBan{}
	o.list = o.list[:last]
}

// TellBans returns the packets that send this node's bans to every peer. There may be none.
// They take up to a quarter of Config.MaxBytes, and the next Tick sends that much less.
// Like Tick it is for one goroutine, which calls it before each Tick; the packets are valid
// until the next call.
func (s *State) TellBans(now time.Duration) [][]byte {
	s.lock(now)
	defer s.mu.Unlock()
	o := &s.bans
	if len(s.banners) == 0 {
		return nil
	}
	if !o.started {
		o.started, o.began, o.lastSent = true, now, now-beatEvery
	}
	s.drainLocked(now)
	h := header{cluster: s.cluster, incarnation: s.config.Incarnation, seq: s.seq, node: s.node}
	o.writer.begin(&h, now-o.began, s.config.banBytes())
	for i := range slices.Backward(o.list) { // drop moves the last one, which has already been visited
		if o.list[i].end <= now {
			o.over(i, now)
		}
	}
	if o.writeDue(0, now, true) == len(o.list) {
		o.repeat(now)
	}
	packets := o.writer.end(now-o.lastSent >= beatEvery)
	if len(packets) > 0 {
		o.lastSent = now
	}
	o.bytes = 0
	for _, p := range packets {
		o.bytes += len(p)
	}
	s.stats.SentPackets += uint64(len(packets))
	s.stats.SentBytes += uint64(o.bytes)
	return packets
}

// writeDue writes the bans that are due, from list[from] on: those that have not been sent yet
// if first is set, else the others. It returns the index of the first one that had no room,
// or the number of bans.
func (o *ownBans) writeDue(from int, now time.Duration, first bool) (until int) {
	for i := from; i < len(o.list); i++ {
		b := &o.list[i]
		if b.due <= now && (b.packets == 0) == first && !o.write(b, now) {
			return i
		}
	}
	return len(o.list)
}

// repeat writes bans that are due again, starting where there was no more room the last
// time.
func (o *ownBans) repeat(now time.Duration) {
	from := min(o.cursor, len(o.list))
	if o.cursor = o.writeDue(from, now, false); o.cursor == len(o.list) {
		o.cursor = o.writeDue(0, now, false)
	}
}

func (o *ownBans) write(b *ownBan, now time.Duration) bool {
	e := banEntry{banID: b.banID, serial: b.serial, left: b.end - now, times: b.times, name: []byte(b.name)}
	if b.lifted {
		e.times = 0
	}
	if !o.writer.write(&e) {
		return false
	}
	b.due = now + repeatEvery
	if int(b.packets) < len(again) {
		b.due = now + again[b.packets]
		b.packets++
	}
	return true
}
