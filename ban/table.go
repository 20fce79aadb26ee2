package ban

import (
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// Ban is a ban that runs.
type Ban struct {
	Digest sketch.Digest
	Name   string        // of the client, as given to Begin or Impose
	Left   time.Duration // until its end
	Times  int           // of the client's bans as far as they are remembered, this one included
}

// NameBytes is the longest name that a table keeps.
const NameBytes = sketch.TalkerNameBytes

// slots is in how many parts of Within denials are counted.
const slots = 16

// Stats counts what a table did.
type Stats struct {
	Begun   uint64 // bans
	Full    uint64 // bans that found no room
	Evicted uint64 // clients that were counted and made room for others
	Running int    // bans now
}

// Table is a fixed-size table of clients that were denied and of those that are banned.
type Table struct {
	mu     sync.Mutex
	size   int
	slot   time.Duration
	all    map[sketch.Digest]*client
	latest atomic.Int64 // the latest end of a ban
	stats  Stats
}

type client struct {
	denials map[int64]int // by slot
	newest  int64
	end     time.Duration
	length  time.Duration
	times   int
	name    string
}

const clientBytes = 192

// Size is how many bans fit into so many bytes.
func Size(bytes int64) int { return int(max(1, bytes/clientBytes)) }

// Bytes is the memory of a table for so many bans.
func Bytes(bans int) int64 { return int64(bans) * clientBytes }

// New makes a table for so many bans, by policies with that Within.
func New(bans int, within time.Duration) *Table {
	return &Table{size: bans, slot: within / slots, all: map[sketch.Digest]*client{}}
}

// Quiet reports whether nobody is banned at now. It is one load.
func (t *Table) Quiet(now time.Duration) bool { return int64(now) >= t.latest.Load() }

// Banned returns when the ban of d ends, if one runs at now.
func (t *Table) Banned(d sketch.Digest, now time.Duration) (end time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.all[d]
	if c == nil || c.end <= now {
		return 0, false
	}
	return c.end, true
}

// Deny counts a denial of d at a time, and reports whether a ban is due: then call Begin.
func (t *Table) Deny(p *Policy, d sketch.Digest, at time.Duration) (due bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.all[d]
	if c == nil {
		if c = t.add(p, d, at); c == nil {
			return false
		}
	}
	if at < c.end {
		return c.end > 0
	}
	slot := int64(at / t.slot)
	c.denials[slot]++
	c.newest = max(c.newest, slot)
	return t.dueLocked(p, c)
}

func (t *Table) dueLocked(p *Policy, c *client) bool {
	n := 0
	for slot, k := range c.denials {
		if slot > c.newest-slots {
			n += k
		} else {
			delete(c.denials, slot)
		}
	}
	left, _ := p.fade(c.length, time.Duration(c.newest)*t.slot-c.end)
	return n >= p.needs(left > 0)
}

func (t *Table) add(p *Policy, d sketch.Digest, now time.Duration) *client {
	if len(t.all) >= t.size {
		for d, c := range t.all {
			left, _ := p.fade(c.length, now-c.end)
			if c.end <= now && left == 0 && c.newest+slots < int64(now/t.slot) {
				delete(t.all, d)
			}
		}
	}
	if len(t.all) >= t.size {
		t.stats.Full++
		return nil
	}
	c := &client{denials: map[int64]int{}}
	t.all[d] = c
	return c
}

// Begin begins the ban of d at now if one is due and none runs. It returns the ban that
// runs then, if any, and whether it has begun now.
func (t *Table) Begin(p *Policy, d sketch.Digest, now time.Duration, name []byte) (b Ban, running, begun bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.all[d]
	switch {
	case c == nil:
		return Ban{}, false, false
	case c.end > now:
		return c.ban(d, now), true, false
	case !t.dueLocked(p, c):
		return Ban{}, false, false
	}
	left, _ := p.fade(c.length, now-c.end)
	if left == 0 {
		c.times = 0
	}
	c.length = p.next(left)
	c.times++
	c.end = now + c.length
	c.name = string(name)
	clear(c.denials)
	t.latest.Store(max(t.latest.Load(), int64(c.end)))
	t.stats.Begun++
	return c.ban(d, now), true, true
}

func (c *client) ban(d sketch.Digest, now time.Duration) Ban {
	return Ban{Digest: d, Name: c.name, Left: c.end - now, Times: c.times}
}

// Impose bans d for left from now on, or for Max if that is shorter, as somebody else has
// said. A ban that lasts longer stays as it is. It reports whether there was room.
func (t *Table) Impose(p *Policy, d sketch.Digest, now, left time.Duration, times int, name []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.all[d]
	if c == nil {
		if c = t.add(p, d, now); c == nil {
			return false
		}
	}
	if end := now + min(left, p.Max); end > c.end {
		c.end, c.name, c.times = end, string(name), max(c.times, times)
		clear(c.denials)
		t.latest.Store(max(t.latest.Load(), int64(end)))
	}
	return true
}

// Lift ends the ban of d, if one runs at now, and forgets d.
func (t *Table) Lift(d sketch.Digest, now time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.all[d]
	delete(t.all, d)
	return c != nil && c.end > now
}

// All returns the bans that run at now, in no order.
func (t *Table) All(now time.Duration) iter.Seq[Ban] {
	return func(yield func(Ban) bool) {
		t.mu.Lock()
		var all []Ban
		for d, c := range t.all {
			if c.end > now {
				all = append(all, c.ban(d, now))
			}
		}
		t.mu.Unlock()
		for _, b := range all {
			if !yield(b) {
				return
			}
		}
	}
}

// Stats returns what the table did, and how many bans run at now.
func (t *Table) Stats(now time.Duration) Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stats
	for _, c := range t.all {
		if c.end > now {
			s.Running++
		}
	}
	return s
}
