package bucket

import (
	"fmt"
	"sort"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// # Sliding logs
//
// A sliding log is n units in any period. It consists of the times of the latest n units
// that were admitted, in a ring next to the table's entry; ticks are µs. A unit at t counts
// as long as now < t + period, so
//
//	a request of k units fits iff, of the latest n, the (n-k+1)th is t with t + period <= now
//
// The entry's word, which is read without a lock, is when the next unit fits: the oldest of
// n times plus a period, or [logged] if there are fewer; with a store, the time from its
// answer. It rises as long as nothing is given back, so it can be joined by maximum.

const (
	// MaxLog is the longest log. A client in memory takes a whole log.
	MaxLog = 1 << 20
	// MaxPortableLog is the longest log in a shared store, which reads and writes it
	// whole.
	MaxPortableLog = 1 << 12
)

// NewSlidingLog returns the shape of n units in any period. It fails, with a field
// error of Rate, on a period that is not 1 s to 366 d in whole µs, and on n of 0 or
// above [MaxLog].
func NewSlidingLog(n uint64, per time.Duration) (Shape, error) {
	s, err := NewWindow(n, per)
	if err != nil {
		return Shape{}, err
	}
	if n > MaxLog {
		return invalid("Rate", fmt.Sprintf("a log of %d units for each client is too long", n), fmt.Sprintf("want at most %d, or a sliding window", MaxLog))
	}
	s.algorithm, s.perMicro = SlidingLog, 1
	return s, nil
}

// logged is the word of a log that is not full. It never denies a client.
const logged = 1

// logs are the logs of a table's entries, by their place.
type logs struct {
	words     []uint64
	period    uint64
	fromStore bool // see Shape
	n         int  // units in a log
}

// logHead is the number of words of a log before its times: when all of it has expired,
// read without a lock; and where the next time goes and how many there are.
const logHead = 2

// logBytes returns the memory of a log of n units.
func logBytes(n uint64) int { return 8 * (int(n) + logHead) }

func newLogs(shape *Shape, sets int) *logs {
	n := int(shape.burst)
	return &logs{words: sketch.Memory[uint64](sets * ways * (n + logHead)), period: shape.period, fromStore: shape.fromStore, n: n}
}

// at returns the log of the entry at place i of set x.
func (l *logs) at(x uint64, i int) log {
	size := uint64(l.n + logHead)
	from := (x*ways + uint64(i)) * size
	return log{l.words[from : from+size : from+size], l.period, l.fromStore}
}

// until returns when the last unit of the log of that entry expires.
func (l *logs) until(x uint64, i int) uint64 {
	return atomic.LoadUint64(&l.words[(x*ways+uint64(i))*uint64(l.n+logHead)])
}

// live reports whether any unit counts at now in the log of that entry, which is free
// if its word is 0.
func (l *logs) live(x uint64, i int, word, now uint64) bool { return word != 0 && l.until(x, i) > now }

// log is one log, used under the lock of its set.
type log struct {
	words     []uint64
	period    uint64
	fromStore bool
}

func (l log) size() int { return len(l.words) - logHead }

func (l log) place() (next, n int) { return int(l.words[1] >> 32), int(l.words[1] & countMask) }

// clear empties the log.
func (l log) clear() { l.set(0, 0) }

// set records where the next time goes and how many there are.
func (l log) set(next, n int) {
	l.words[1] = uint64(next)<<32 | uint64(n)
	until := uint64(0)
	if n > 0 {
		until = l.latest(0) + l.period
	}
	atomic.StoreUint64(&l.words[0], until)
}

// latest returns the kth time from the latest, which is the 0th.
func (l log) latest(k int) uint64 {
	next, _ := l.place()
	if next -= k + 1; next < 0 {
		next += l.size()
	}
	return l.words[logHead+next]
}

// live returns how many units count at now, by binary search, since the times are in order.
func (l log) live(now uint64) int {
	_, n := l.place()
	return sort.Search(n, func(k int) bool { return l.latest(k)+l.period <= now })
}

// push adds units at now, but not before the latest. If they do not all fit, the latest
// stay.
func (l log) push(now, units uint64) {
	next, n := l.place()
	if n > 0 {
		now = max(now, l.latest(0))
	}
	for range min(units, uint64(l.size())) {
		l.words[logHead+next] = now
		if next++; next == l.size() {
			next = 0
		}
	}
	l.set(next, int(min(uint64(n)+units, uint64(l.size()))))
}

// drop removes the latest units.
func (l log) drop(units uint64) {
	next, n := l.place()
	k := int(min(units, uint64(n)))
	if next -= k; next < 0 {
		next += l.size()
	}
	l.set(next, n-k)
}

// word returns the word of the table's entry for the log.
func (l log) word() uint64 {
	if _, n := l.place(); n < l.size() || l.fromStore {
		return logged
	}
	return l.latest(l.size()-1) + l.period
}

// wait returns how long after now a request of so many units fits.
func (l log) wait(now, units uint64) uint64 {
	room := l.size() - int(min(units, uint64(l.size())))
	if l.live(now) <= room {
		return 0
	}
	return l.latest(room) + l.period - now
}

// become makes the log a copy of another one.
func (l log) become(other log) {
	copy(l.words[1:], other.words[1:])
	atomic.StoreUint64(&l.words[0], other.words[0])
}

// first returns the word of a new bucket after a charge, 0 if the charge makes none.
func (t *Table) first(c *charge) (tat uint64, ok bool) {
	if t.logs == nil {
		return c.to(&t.shape, 0)
	}
	if ok = c.must || c.cost <= t.shape.limit; !ok || c.cost == 0 && c.least <= c.now && c.times == nil {
		return 0, ok
	}
	return logged, true
}

// after returns the word of the bucket at place i of set x after a charge, and makes the
// charge in its log, if it has one.
func (t *Table) after(c *charge, x uint64, i int, tat uint64) (after uint64, ok bool) {
	if t.logs == nil {
		return c.to(&t.shape, tat)
	}
	l := t.logs.at(x, i)
	if !c.must && c.cost > 0 && (tat > max(c.now, logged) || uint64(l.live(c.now))+c.cost > t.shape.limit) {
		return tat, false
	}
	if c.times != nil {
		l.takeOver(c.times)
	}
	if c.cost > 0 {
		l.push(c.now, c.cost)
	}
	return max(tat, l.word(), c.least), true
}

// refunded returns the word of that bucket after cost is given back.
func (t *Table) refunded(x uint64, i int, tat, now, cost uint64) uint64 {
	if t.logs == nil {
		return t.shape.Sub(tat, now, cost)
	}
	l := t.logs.at(x, i)
	l.drop(cost)
	return l.word()
}

// Log returns what the log of d says at now about a request of the given cost: how many
// units fit, in how many µs the request fits, and in how many none of the log counts any
// more. If a store has raised the table's word beyond the log, the table only knows that no
// unit fits before that.
func (t *Table) Log(d sketch.Digest, now, cost uint64) (free, retry, empty uint64) {
	var h held
	t.hold(&h, d, false)
	defer t.release(&h)
	if free = t.shape.limit; h.i < 0 {
		return free, 0, 0
	}
	l, tat := t.logs.at(h.at, h.i), t.sets[h.at][h.i].tat
	free -= uint64(l.live(now))
	if retry = l.wait(now, cost); retry > 0 {
		retry += t.shape.late // as by LogWait
	}
	empty = t.logs.until(h.at, h.i) - min(now, t.logs.until(h.at, h.i))
	if tat > max(now, logged) {
		free, retry, empty = 0, max(retry, t.shape.LogWait(tat, now)), max(empty, tat-now)
	}
	return free, retry, empty
}

// LogFits reports whether a request of the given cost fits the log of d at now. For a cost
// above 1 the word of a log that is not full does not say that. With a store it denies for
// longer, by the amount that clocks may drift apart.
func (t *Table) LogFits(d sketch.Digest, now, cost uint64) bool {
	if t.shape.fromStore {
		now += t.shape.period >> DriftShift
	}
	var h held
	t.hold(&h, d, false)
	defer t.release(&h)
	return h.i < 0 || uint64(t.logs.at(h.at, h.i).live(now))+cost <= t.shape.limit
}

// LogWait returns in how many µs a unit fits, given a word by which it does not fit at now.
// It allows for the slower clock of a store that judged late.
func (s *Shape) LogWait(word, now uint64) uint64 { return max(word+s.late, now+1) - now }

// LogUntil returns when the last unit of the log of d expires, or 0. It takes no lock:
// while another bucket takes the place of this one, the result may be that of the other, or
// 0.
func (t *Table) LogUntil(d sketch.Digest) uint64 {
	x := t.index(d)
	for _, x := range [2]uint64{x, t.other(x, d.ID)} {
		for i := range t.sets[x] {
			if e := &t.sets[x][i]; e.of(d.ID) == 0 {
				continue
			}
			if until := t.logs.until(x, i); t.sets[x][i].of(d.ID) != 0 {
				return until
			}
		}
	}
	return 0
}

// LatelyLogged returns how many units the log of d has from the half period before now: the
// floor of an [Op]. It looks back less by the amount that clocks may drift apart, so that
// none of them is older by a store's clock.
func (t *Table) LatelyLogged(d sketch.Digest, now uint64) uint64 {
	var h held
	t.hold(&h, d, false)
	defer t.release(&h)
	if h.i < 0 {
		return 0
	}
	l, since := t.logs.at(h.at, h.i), now-min(now, t.shape.period/2-t.shape.period>>DriftShift)
	_, n := l.place()
	return uint64(sort.Search(n, func(k int) bool { return l.latest(k) < since }))
}
