package delta

import (
	"time"
)

const (
	// settled is how long a node must have been heard, and settledBy by how many packets,
	// each newer than all before, until its bans are applied. The fastest of these packets
	// dates the others, so replaying one before the node itself is heard is not enough.
	settled, settledBy = 3 * beatEvery, 4
	// clockWindow is how long the fastest packet counts: clocks of nodes drift apart.
	clockWindow = 10 * time.Second

	// maxLeft is the longest that any ban can last, as in package ban, so that no node
	// fills another's claims for longer.
	maxLeft = 366 * 24 * time.Hour

	// believedBans is how many bans and ends of bans are accepted from one node per second,
	// and at once. More than that comes again with the node's next packets.
	believedBans = 4096
)

// clockOf relates the clock of another node, as its packets of bans state it, to this
// node's. The zero value has heard nothing.
//
// The time at which a packet arrives minus the time at which it was sent is the difference
// of the clocks plus the time on the way. The minimum of these is from the fastest packet.
// The excess of another packet over the minimum is its delay, and its bans have that much
// less left. So neither delay nor repetition nor replay moves the end of a ban.
type clockOf struct {
	least  [2]time.Duration // in this window, and in the one before
	turned time.Duration    // start of this window
	met    time.Duration    // when the first packet arrived
	latest time.Duration    // the latest sent time of any packet
	came   time.Duration    // when that packet arrived
	heard  int              // packets that were newer than all before
}

// note returns how much later than the fastest packet one that was sent at that time
// arrives. Only packets newer than all before count, since any other may be a replay. One
// that is newer by more than the time since then plus a delay is not plausible, and ok is
// false: if it were believed, all packets after it would look like replays. But note starts
// over while the clock has not settled, as what was heard may be a replay, and when nothing
// has come for longer than clockWindow, as this node's clock may have stood still.
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

// settled reports whether the bans of a packet that arrives now are applied.
func (c *clockOf) settled(now time.Duration) bool {
	return now-c.met >= settled && c.heard >= settledBy
}

// claims are the bans that one incarnation of another node has reported. The last report
// about a client counts: the maximum of (serial, lifted), so that packets may be lost,
// repeated, reordered and replayed. Each ban is applied once, so that its repetition does
// not undo what an operator has ended here.
type claims struct {
	clock  clockOf
	known  map[banID]claim
	room   int // of known, before ended ones are forgotten
	swept  time.Duration
	tokens float64 // allowance: bans that the node is believed, as of filled
	filled time.Duration
}

// claim is a ban that another node has reported.
type claim struct {
	serial uint64
	end    time.Duration // of the ban there, by this node's clock; kept until then
	until  time.Duration // of the ban here; 0: it was not applied
	lifted bool          // there, or suppressed here
	name   string
}

// claimBytes is the memory of a claim in a map, with the map's free space.
const claimBytes = 144

// suppress keeps a ban from being applied again and from counting as one in force.
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
// room for one more. It visits all bans only when their number has doubled since the last
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

// mergeBansLocked merges a packet of bans. r is at the part after its header, which is
// well-formed.
func (s *State) mergeBansLocked(m *mirror, r reader, now time.Duration) Reason {
	c := &m.claims
	late, ok := c.clock.note(r.duration(), now)
	if !ok {
		return Clock
	}
	if !c.clock.settled(now) {
		return accepted // these bans are sent again
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
	if lifted && !known { // from before this node's restart, or of another identity of the rule
		before = now + e.left
	}
	k = claim{serial: e.serial, end: now + e.left, lifted: lifted}
	if lifted {
		s.stats.Bans.UnbansReceived++
	} else {
		var runs time.Duration
		k.until, runs = s.applyLocked(rule, e, !again, now)
		k.name = string(e.name)
		if !known { // a longer ban is from before, too, unless another report says otherwise
			before = runs - time.Second // the two clocks differ by less than that
		}
	}
	c.known[e.banID] = k
	if before > max(now, k.until) {
		s.liftLocked(rule, e.banID, before, now)
	}
}

// applyLocked bans a client here. It returns the end of the ban that it applied, 0 if none,
// and the time until which the client is then banned. first is set for a ban that has not
// been refused before.
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

// liftLocked takes back a ban until that time, which its node has ended, except for as long
// as another node has reported a ban of the client. A ban of this node continues.
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
