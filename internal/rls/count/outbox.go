package count

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/rls/descriptor"
	"github.com/fastlimit/fastlimit/sketch"
)

const (
	// maxPending is how many counters may be added in a tick, how many may wait afterwards, and
	// how many are kept for nodes that join. Others wait for their next hit, with which all of them are sent.
	maxPending = 1 << 17
	// repeatAfter is after how many ticks a count is sent once more: packets get lost.
	repeatAfter = 10
)

// counter names a counter on all nodes.
type counter struct {
	digest sketch.Digest
	unit   descriptor.Unit
}

// pending is a count that the other nodes have not been sent.
type pending struct {
	state uint64 // of its window
	hits  uint64 // of them since it was sent
}

// sent is a counter that was sent at a tick.
type sent struct {
	counter

	tick uint64
}

// outbox has the counts to send to the other nodes.
type outbox struct {
	mu    sync.Mutex
	fresh map[counter]pending // since the last tick; guarded by mu

	// For Tick alone.
	spare   map[counter]pending // is fresh after the next tick
	waiting map[counter]pending
	levels  levels              // of those that wait
	sent    []sent              // oldest first
	known   map[counter]pending // what was sent, with all hits of the window, for nodes that join
	ticks   uint64

	recall atomic.Bool // send what is known at the next tick
	unsent atomic.Uint64
}

// levels are counters by how many bits the number of their hits has.
type levels [65][]counter

func newOutbox() outbox {
	return outbox{fresh: map[counter]pending{}, spare: map[counter]pending{}, waiting: map[counter]pending{}, known: map[counter]pending{}}
}

// note has a count sent at the next tick.
func (n *outbox) note(c counter, state, hits uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.fresh[c]; known || len(n.fresh) < maxPending {
		join(n.fresh, c, pending{state, hits})
	}
}

// join adds what is new of a counter to the rest.
func join(all map[counter]pending, c counter, u pending) {
	switch known := all[c]; {
	case known.state>>32 == u.state>>32:
		u = pending{max(known.state, u.state), sum(known.hits, u.hits)}
	case known.state > u.state:
		return // of a window before
	}
	all[c] = u
}

// collect has what is new wait, and forgets windows that are over.
func (n *outbox) collect(now time.Duration) {
	n.mu.Lock()
	n.fresh, n.spare = n.spare, n.fresh
	n.mu.Unlock()
	for c, u := range n.spare {
		join(n.waiting, c, u)
	}
	clear(n.spare)
	if n.recall.Swap(false) {
		for c, u := range n.known {
			join(n.waiting, c, u)
		}
	}
	n.levels.sort(n.waiting, now)
	n.ticks++
}

// sort has all counters whose windows are not over, and forgets the others.
func (l *levels) sort(all map[counter]pending, now time.Duration) {
	for i := range l {
		l[i] = l[i][:0]
	}
	for c, u := range all {
		if u.state>>32 < window(now, c.unit) {
			delete(all, c)
			continue
		}
		bits := bits.Len64(u.hits)
		l[bits] = append(l[bits], c)
	}
}

// shed forgets those with the fewest hits, where there are more than so many.
func (l *levels) shed(all map[counter]pending, most int) {
	for _, level := range l {
		for _, c := range level {
			if len(all) <= most {
				return
			}
			delete(all, c)
		}
	}
}

// Tick returns the packets for the other nodes: counters with most hits first,
// so that nobody hides many hits of one client behind hits of others. What has no room waits.
func (n *Nodes) Tick() (packets, _ [][]byte) {
	now, q, w := n.config.Now(), &n.outbox, &n.writer
	q.collect(now)
	w.begin(&n.config, now)
	room := n.config.MaxBytes
	if len(q.sent) > 0 && q.ticks-q.sent[0].tick >= repeatAfter {
		room -= room / 4
	}
	for level := len(q.levels) - 1; level >= 0; level-- {
		for _, c := range q.levels[level] {
			state := q.waiting[c].state
			if state>>32 > window(now, c.unit) || !w.write(room, c, state) {
				continue // no room, or of a window to come, by another reading of the clock
			}
			delete(q.waiting, c)
			q.known[c] = pending{state, state & bucket.MaxWindowUnits}
			if len(q.sent) < maxPending {
				q.sent = append(q.sent, sent{c, q.ticks})
			}
		}
	}
	n.repeat(now)
	for c := range q.waiting { // any: those with the fewest hits would never be sent
		if len(q.waiting) <= maxPending {
			break
		}
		delete(q.waiting, c)
	}
	q.unsent.Store(uint64(len(q.waiting)))
	if len(q.known) > maxPending {
		q.levels.sort(q.known, now)
		q.levels.shed(q.known, maxPending/2)
	}
	return w.end(), nil
}

// repeat sends once more what was sent a while ago.
func (n *Nodes) repeat(now time.Duration) {
	q, i := &n.outbox, 0
	for ; i < len(q.sent) && q.ticks-q.sent[i].tick >= repeatAfter; i++ {
		c := q.sent[i].counter
		t := n.own.tables.all[c.unit].Load()
		state := t.LookupLocked(c.digest)
		if state>>32 >= window(now, c.unit) && !n.writer.write(n.config.MaxBytes, c, state) {
			break
		}
	}
	q.sent = append(q.sent[:0], q.sent[i:]...)
}

// window returns the number of the window at a time.
func window(now time.Duration, u descriptor.Unit) uint64 { return uint64(now / u.Duration()) }
