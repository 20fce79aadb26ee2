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
	// maxNews is how many counters may become new in a tick, how many may wait afterwards, and
	// how many are kept for nodes that join. Others wait for their next hit, which tells all.
	maxNews = 1 << 17
	// repeatAfter is after how many ticks a count is said once more: packets get lost.
	repeatAfter = 10
)

// counter names a counter on all nodes.
type counter struct {
	digest sketch.Digest
	unit   descriptor.Unit
}

// unsaid is a count that the other nodes have not been told.
type unsaid struct {
	state uint64 // of its window
	hits  uint64 // of them since it was told
}

// said is a counter that was told at a tick.
type said struct {
	counter

	tick uint64
}

// news are the counts to tell the other nodes.
type news struct {
	mu    sync.Mutex
	fresh map[counter]unsaid // since the last tick; guarded by mu

	// For Tick alone.
	spare   map[counter]unsaid // is fresh after the next tick
	waiting map[counter]unsaid
	levels  levels             // of those that wait
	said    []said             // oldest first
	known   map[counter]unsaid // what was told, with all hits of the window, for nodes that join
	ticks   uint64

	recall atomic.Bool // tell what is known at the next tick
	unsent atomic.Uint64
}

// levels are counters by how many bits the number of their hits has.
type levels [65][]counter

func newNews() news {
	return news{fresh: map[counter]unsaid{}, spare: map[counter]unsaid{}, waiting: map[counter]unsaid{}, known: map[counter]unsaid{}}
}

// note has a count told at the next tick.
func (n *news) note(c counter, state, hits uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.fresh[c]; known || len(n.fresh) < maxNews {
		join(n.fresh, c, unsaid{state, hits})
	}
}

// join adds news of a counter to others.
func join(all map[counter]unsaid, c counter, u unsaid) {
	switch known := all[c]; {
	case known.state>>32 == u.state>>32:
		u = unsaid{max(known.state, u.state), sum(known.hits, u.hits)}
	case known.state > u.state:
		return // of a window before
	}
	all[c] = u
}

// collect has what is new wait, and forgets windows that are over.
func (n *news) collect(now time.Duration) {
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
func (l *levels) sort(all map[counter]unsaid, now time.Duration) {
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
func (l *levels) shed(all map[counter]unsaid, most int) {
	for _, level := range l {
		for _, c := range level {
			if len(all) <= most {
				return
			}
			delete(all, c)
		}
	}
}

// Tick returns the packets that tell the other nodes what is new: counters with most hits first,
// so that nobody hides many hits of one client behind hits of others. What has no room waits.
func (n *Nodes) Tick() (packets, _ [][]byte) {
	now, q, w := n.config.Now(), &n.news, &n.writer
	q.collect(now)
	w.begin(&n.config, now)
	room := n.config.MaxBytes
	if len(q.said) > 0 && q.ticks-q.said[0].tick >= repeatAfter {
		room -= room / 4
	}
	for level := len(q.levels) - 1; level >= 0; level-- {
		for _, c := range q.levels[level] {
			state := q.waiting[c].state
			if state>>32 > window(now, c.unit) || !w.write(room, c, state) {
				continue // no room, or of a window to come, by another reading of the clock
			}
			delete(q.waiting, c)
			q.known[c] = unsaid{state, state & bucket.MaxWindowUnits}
			if len(q.said) < maxNews {
				q.said = append(q.said, said{c, q.ticks})
			}
		}
	}
	n.repeat(now)
	for c := range q.waiting { // any: those with the fewest hits would never be told
		if len(q.waiting) <= maxNews {
			break
		}
		delete(q.waiting, c)
	}
	q.unsent.Store(uint64(len(q.waiting)))
	if len(q.known) > maxNews {
		q.levels.sort(q.known, now)
		q.levels.shed(q.known, maxNews/2)
	}
	return w.end(), nil
}

// repeat tells once more what was told a while ago.
func (n *Nodes) repeat(now time.Duration) {
	q, i := &n.news, 0
	for ; i < len(q.said) && q.ticks-q.said[i].tick >= repeatAfter; i++ {
		c := q.said[i].counter
		t := n.own.tables.all[c.unit].Load()
		state := t.LookupLocked(c.digest)
		if state>>32 >= window(now, c.unit) && !n.writer.write(n.config.MaxBytes, c, state) {
			break
		}
	}
	q.said = append(q.said[:0], q.said[i:]...)
}

// window returns the number of the window at a time.
func window(now time.Duration, u descriptor.Unit) uint64 { return uint64(now / u.Duration()) }
