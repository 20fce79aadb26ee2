package delta

import (
	"time"
)

const (
	// settled is how long a node must have been heard, and by how many packets, each newer
	// than all before, until its bans are applied. The fastest of these dates the others, so
	// that it is not enough to replay one before the node itself is heard.
	settled, settledBy = 3 * beatEvery, 4
	// clockWindow is how long the fastest packet counts: clocks of nodes drift apart.
	clockWindow = 10 * time.Second

	// maxLeft is the most that is left of any ban, as package ban has it, so that no node fills
	// another's claims for longer.
	maxLeft = 366 * 24 * time.Hour

	// believedBans is how many bans and ends of bans are taken from one node in a second,
	// and at once. What is beyond comes again with the node's next packets.
	believedBans = 4096
)

// clockOf relates the clock of another node, as its packets of bans tell it, to
// this node's. The zero value has met nobody.
//
// The time at which a packet arrives minus that at which it was sent is the difference of
// the clocks plus the time on the way. The least of these is from the fastest packet. How
// much more it is for another packet is how much later that one was: late by so much it
// tells of bans that have so much less left. So neither delay nor repetition nor replay
// moves the end of a ban.
type clockOf struct {
	least  [2]time.Duration // in this window, and in the one before
	turned time.Duration    // when this window began
	met    time.Duration    // when the first packet arrived
	latest time.Duration    // of the times at which packets were sent
	came   time.Duration    // when that packet arrived
	heard  int              // packets that were newer than all before
}

// note returns how much later than the fastest packet one that was sent then arrives. Only
// packets newer than all before teach anything: any other may be a replay. One that is newer by
// more than the time since and a delay is not plausible, and is not ok: believed, it would make
// all that follow a replay. But the clock is met anew while it has not settled, as what was heard
// may be a replay, and when nothing has come for as long: this node's own clock has stood still.
func (c *clockOf) note(sent, now time.Duration) (late time.Duration, ok bool) {
	way := now - sent
	if silent := now - c.came; c.heard > 0 && sent-c.latest > silent+clockWindow {
		if silent <= clockWindow && c.settled(now) {
			return 0, false
		}
		c.heard = 0
	}
	switch {
	case c.heard == 0:
		*c = clockOf{least: [2]time.Duration{way, way}, turned: now, met: now, latest: sent, came: now, heard: 1}
	case sent > c.latest:
		c.latest, c.came = sent, now
		c.heard++
		if now-c.turned >= clockWindow {
			c.least, c.turned = [2]time.Duration{way, c.least[0]}, now
		}
		c.least[0] = min(c.least[0], way)
	}
	return max(0, way-min(c.least[0], c.least[1])), true
}

// settled reports whether bans are applied that a packet tells which arrives now.
func (c *clockOf) settled(now time.Duration) bool {
	return now-c.met >= settled && c.heard >= settledBy
}

// claims are the bans that one incarnation of another node has told. What it told
// last of a client counts: the maximum of (serial, lifted), so that packets may be lost,
// repeated, reordered and replayed. Each ban is applied once, so that an operator who
// ends it here is not contradicted by its repetition.
type claims struct {
	clock  clockOf
	known  map[banID]claim
	room   int // of known, before what has ended is forgotten
	swept  time.Duration
	tokens float64 // allowance: bans that the node is believed, as of filled
	filled time.Duration
}

// claim is a ban that another node has told.
type claim struct {
	serial uint64
	end    time.Duration // of the ban there, by this node's clock; kept until then
	until  time.Duration // of the ban here; 0: it was not applied
	lifted bool          // there, or suppressed here
	name   string
}

// claimBytes is the memory of a claim in a map, with what the map keeps free.
const claimBytes = 144

// suppress has a ban neither applied again nor counted among those that hold.
func (c *claims) suppress(id banID) {
	if k, ok := c.known[id]; ok {
		k.lifted = true
		c.known[id] = k
	}
}

// allow takes one from the allowance.
func (c *claims) allow(now time.Duration) bool {
	c.tokens = min(believedBans, c.tokens+believedBans*max(0, now-c.filled).Seconds())
	c.filled = max(c.filled, now)
	if c.tokens < 1 {
		return false
	}
	c.tokens--
	return true
}

// makeRoom forgets bans that have ended if there are many, and reports whether there is
// room for one more. It reads all of them only when they have doubled since the last
// time, or once a second when there is no room.
func (c *claims) makeRoom(most int, now time.Duration) bool {
	if c.known == nil {
		c.known, c.room = map[banID]claim{}, min(64, most)
	}
	if len(c.known) < c.room {
		return true
	}
	if c.room == most && now-c.swept < time.Second {
		return false
	}
	c.swept = now
	for id, k := range c.known {
		if k.end <= now {
			delete(c.known, id)
		}
	}
	c.room = min(max(2*len(c.known), 64), most)
	return len(c.known) < c.room
}

// mergeBansLocked merges a packet of bans; r is at what follows its header, which is
// well-formed.
func (s *State) mergeBansLocked(m *mirror, r reader, now time.Duration) Reason {
	c := &m.claims
	late, ok := c.clock.note(r.duration(), now)
	if !ok {
		return Clock
	}
	if !c.clock.settled(now) {
		return accepted // what it tells now it tells again
	}
	s.drainLocked(now)
	for r.more() {
		e := r.ban()
		rule, ok := s.banners[e.identity]
		if !ok {
			s.stats.Rejected[UnknownRule]++
			continue
		}
		if e.left = min(e.left, maxLeft) - late; e.left > 0 {
			s.claimLocked(c, rule, &e, now)
		}
	}
	return accepted
}

// claimLocked merges one ban, or the end of one, which would last for e.left from now.
func (s *State) claimLocked(c *claims, rule Banner, e *banEntry, now time.Duration) {
	k, known := c.known[e.banID]
	lifted := e.times == 0
	again := known && e.serial == k.serial
	if known && e.serial < k.serial || again && (k.lifted || !lifted && k.until != 0) {
		return // nothing new
	}
	if !known && !c.makeRoom(s.bans.most, now) {
		s.stats.Bans.Refused[bansFull]++
		return
	}
	if !again && !c.allow(now) {
		s.stats.Bans.Refused[bansCap]++
		return
	}
	before := k.until
	if lifted && !known { // of before this node's restart, or of another identity of the rule
		before = now + e.left
	}
	k = claim{serial: e.serial, end: now + e.left, lifted: lifted}
	if lifted {
		s.stats.Bans.UnbansReceived++
	} else {
		var runs time.Duration
		k.until, runs = s.applyLocked(rule, e, !again, now)
		k.name = string(e.name)
		if !known { // whatever lasts longer is of before, too, unless somebody says otherwise
			before = runs - time.Second // which the two clocks do not differ by
		}
	}
	c.known[e.banID] = k
	if before > max(now, k.until) {
		s.liftLocked(rule, e.banID, before, now)
	}
}

// applyLocked bans a client here and returns until when, 0 if it did not, and until when
// the client is banned then. first is set for a ban that has not been refused before.
func (s *State) applyLocked(rule Banner, e *banEntry, first bool, now time.Duration) (until, runs time.Duration) {
	if first {
		s.stats.Bans.Received++
	}
	reason := bansOff
	if s.config.AcceptBans {
		reason = bansRule
		if granted, runs := rule.BanFor(Ban{Digest: e.digest, Name: string(e.name), Left: e.left, Times: int(e.times)}); granted > 0 {
			s.stats.Bans.Applied++
			return now + granted, now + runs
		}
	}
	if first {
		s.stats.Bans.Refused[reason]++
	}
	return 0, 0
}

// liftLocked takes back what a node had banned until then and bans no more, but for as
// long as another one has said, if it has. A ban of this node goes on.
func (s *State) liftLocked(rule Banner, id banID, until, now time.Duration) {
	var rest claim
	for _, m := range s.mirrors {
		if k := m.claims.known[id]; !k.lifted && k.until > rest.until {
			rest = k
		}
	}
	if rest.until >= until {
		return
	}
	if rule.EndBan(id.digest) && rest.until > now {
		rule.BanFor(Ban{Digest: id.digest, Name: rest.name, Left: rest.until - now, Times: 1})
	}
}
