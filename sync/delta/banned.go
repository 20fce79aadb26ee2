package delta

import (
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

const (
	// maxBans is how many bans a node tells at a time, and how many of another
	// node's it remembers.
	maxBans = 16 << 10

	// beatEvery is how often a node that has nothing to tell sends an empty packet
	// of bans, by which the others date the next ones: see clockOf.
	beatEvery = time.Second
	// repeatEvery is how often each ban is told again, to nodes that have joined since and to
	// those that lost all packets before, if there is room: with settled, and a lost packet, all
	// agree within ten seconds.
	repeatEvery = 5 * time.Second
)

// again is how long after the first, second, … packet with a ban the next one
// follows: single packets get lost, and nodes that have just met believe none before
// settled.
var again = [...]time.Duration{300 * time.Millisecond, time.Second, settled}

// Ban is a client banned by a rule.
type Ban struct {
	Digest sketch.Digest
	Name   string        // the client's compact name, of at most 40 bytes
	Left   time.Duration // until its end
	Times  int           // how often it has been banned lately; for lists
}

// Banner is a rule whose bans the nodes tell each other. Implementations are safe
// for concurrent use.
type Banner interface {
	Name() string     // of the rule, which stays when its limit changes
	Identity() uint64 // see [Rule]
	// Running returns the bans of this node that run: what another node has told is none.
	Running() iter.Seq[Ban]
	// BanFor bans a client because another node has, and returns for how long: at most
	// for as long as this rule bans anybody. A longer ban stays: runs is how long the client
	// is banned then. It returns 0 where this rule bans nobody, or has no room.
	BanFor(Ban) (granted, runs time.Duration)
	// EndBan ends a ban of BanFor, and reports whether there was one. A ban that the rule has
	// begun by itself goes on, a shorter one too.
	EndBan(sketch.Digest) (ended bool)
}

// ownBan is a ban of this node, or the end of one, and what was told of it.
type ownBan struct {
	banID
	name   string
	times  uint64
	end    time.Duration // when it ends, or would have ended
	before time.Duration // when an earlier one would have ended that was told, if that is later
	serial uint64
	lifted bool

	told uint8         // packets with it, up to len(again)
	due  time.Duration // when the next one is
}

// inbox takes reports from requests. Its lock is held for an append only, so that
// no request waits for a tick.
type inbox struct {
	mu   sync.Mutex
	news []ownBan // in their order; without what is about telling
	lost uint64
}

func (i *inbox) add(n *ownBan) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.news) >= maxBans {
		i.lost++
		return
	}
	i.news = append(i.news, *n)
}

// take returns what has come in, in its order. spare is used for what comes next.
func (i *inbox) take(spare []ownBan) (news []ownBan, lost uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	news, i.news = i.news, spare[:0]
	lost, i.lost = i.lost, 0
	return news, lost
}

// Banned reports a ban that has begun at this node, as of now, so that the next
// TellBans tells the peers. Bans that another node told must not be reported. It does not
// wait, and is for requests.
func (s *State) Banned(identity uint64, b Ban, now time.Duration) {
	s.inbox.add(ownBanOf(banID{identity, b.Digest}, &b, now))
}

// Unbanned reports that somebody has ended all bans of a client at this node, of which its
// own had left yet; 0: it had none. The end of its own is told for as long as the ban would
// have lasted, so that nobody who has yet to hear of the ban learns of it alone. What peers
// have said of the client by now is not applied again; only a new ban is.
func (s *State) Unbanned(identity uint64, d sketch.Digest, left, now time.Duration) {
	s.inbox.add(&ownBan{banID: banID{identity, d}, lifted: true, end: now + left})
}

// Recall has all bans told that run by the rules in force and are not told yet: those that a
// restart has kept, and those of a rule that has another identity now. Call it when the
// rules are new, after [New] and [State.Follow].
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

// ownBans are the bans that this node tells.
type ownBans struct {
	list   []ownBan
	byID   map[banID]int // index in list
	serial uint64
	cursor int // where repeating continues
	most   int // of list

	began    time.Duration // of this run: what is sent is dated from here
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

// drainLocked takes in what the limiter has reported.
func (s *State) drainLocked(now time.Duration) {
	o := &s.bans
	news, lost := s.inbox.take(o.spare)
	s.stats.Bans.Refused[bansUntold] += lost
	for i := range news {
		if n := &news[i]; n.lifted {
			s.unbannedLocked(n, now)
		} else {
			s.bannedLocked(n, now)
		}
	}
	clear(news) // keeps no name alive
	o.spare = news
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
			b.lifted, b.name, b.end, b.told, b.due = true, "", max(b.end, b.before), 0, now
			s.stats.Bans.UnbansSent++
		}
		return
	}
	// Peers may have it all the same: from before a restart, or by an identity before.
	if n.end > now && s.bans.put(n, now) {
		s.stats.Bans.UnbansSent++
	}
}

// put has something new told of a client, in place of what was. It reports whether there is
// room.
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

// follow forgets the bans of rules that are gone. What operators have ended goes on to be
// told by the rule of the same name: renamed has its identity.
func (o *ownBans) follow(renamed map[uint64]uint64) {
	for i := range slices.Backward(o.list) { // drop moves the last one, which has been looked at
		b := o.list[i]
		to, stays := renamed[b.identity]
		if stays && to == b.identity {
			continue
		}
		o.drop(i)
		if stays && (b.lifted || b.before > b.end) {
			b.identity, b.lifted, b.name, b.end, b.told = to, true, "", max(b.end, b.before), 0
			o.put(&b, 0)
		}
	}
}

// over removes a ban whose time is over. If an earlier one has ended before its time, that is
// told for as long as that time lasts: nodes may have heard of that one alone.
func (o *ownBans) over(i int, now time.Duration) {
	if b := &o.list[i]; b.before > now {
		b.lifted, b.name, b.end, b.told, b.due = true, "", b.before, 0, now
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

// TellBans returns the packets that tell every peer this node's bans, of which there may
// be none. They take up to a quarter of Config.MaxBytes, by which the next Tick sends
// less. Like Tick it is for one goroutine, which calls it before each Tick; the
// packets are valid until the next call.
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
	for i := range slices.Backward(o.list) { // drop moves the last one, which has been looked at
		if o.list[i].end <= now {
			o.over(i, now)
		}
	}
	if o.tell(0, now, true) == len(o.list) {
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

// tell writes the bans that are due, from list[from] on: those that nobody has been told
// if first is set, else the others. It returns the index of the first one that had no
// room, or how many bans there are.
func (o *ownBans) tell(from int, now time.Duration, first bool) (until int) {
	for i := from; i < len(o.list); i++ {
		b := &o.list[i]
		if b.due <= now && (b.told == 0) == first && !o.write(b, now) {
			return i
		}
	}
	return len(o.list)
}

// repeat writes bans that are due again, beginning where there was no more room the
// last time.
func (o *ownBans) repeat(now time.Duration) {
	from := min(o.cursor, len(o.list))
	if o.cursor = o.tell(from, now, false); o.cursor == len(o.list) {
		o.cursor = o.tell(0, now, false)
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
	if int(b.told) < len(again) {
		b.due = now + again[b.told]
		b.told++
	}
	return true
}
