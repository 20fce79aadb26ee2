package bucket

import (
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/fastlimit/fastlimit/internal/chain"
	"github.com/fastlimit/fastlimit/sketch"
)

// # Another limit for the same clients
//
// A table cannot change its shape while requests use it. So another limit has another
// table, which takes the buckets over ([Table.TakeOver]). Buckets keep their units:
//
//	level' = min((level - grace) / T · T', B'·T')     rounded down: no client is denied for the rounding
//
// and from then on they leak by the new limit. Windows keep their counts, and logs their
// newest N' times.
//
// Both tables may be used for a while: requests that began under the old limit finish under
// it. Each unit counts once in the new table. While all locks of the old table are held,
// each bucket is read and entered in the new table, and a follower is set. Units charged
// before that are in the bucket that is read; units charged later go to both tables.
//
// An entry does not hold Pos, of which its home shows only a part. If the tables differ in
// size, a bucket is entered in each set that could be its home in the new one. A copy in
// the wrong set is never found, and drains.

// Carry says between which limits, and when, states are converted.
type Carry struct {
	From, To Shape
	// FromNow and Now are the same moment by both clocks: in ticks for buckets and logs, in
	// WindowTicks for windows. A later FromNow makes levels lower.
	FromNow, Now uint64
	// Whole keeps levels above a full bucket of the new limit, as those of [Shape.At] may
	// be.
	Whole bool
}

// Takes reports whether a state by another limit has a meaning for this one: if both leak,
// or count in windows of the same period, or keep logs of the same period.
func (s *Shape) Takes(other *Shape) bool {
	return algorithms[s.algorithm].family == algorithms[other.algorithm].family && s.period == other.period
}

// SameTicks reports whether ticks and units, or periods, are the same.
func (s *Shape) SameTicks(other *Shape) bool {
	return s.Takes(other) && s.perMicro == other.perMicro && s.unit == other.unit
}

// SharesStates reports whether a state means the same by both limits. That is so for equal
// limits, and for windows of the same period, whose states hold no limit.
func (s *Shape) SharesStates(other *Shape) bool {
	return *s == *other || s.Windowed() && s.Takes(other)
}

// SameBuckets reports whether both have the same buckets.
func (t *Table) SameBuckets(other *Table) bool { return &t.sets[0] == &other.sets[0] }

// Level converts a level, rounded down.
func (c *Carry) Level(level uint64) uint64 { return c.scale(level, 0) }

// LevelUp converts a level, rounded up.
func (c *Carry) LevelUp(level uint64) uint64 { return c.scale(level, c.From.unit-1) }

// scale returns (level·T' + add)/T, at most maxLimit, which is more than any bucket holds.
func (c *Carry) scale(level, add uint64) uint64 {
	hi, lo := bits.Mul64(level, c.To.unit)
	lo, carry := bits.Add64(lo, add, 0)
	if hi += carry; hi >= c.From.unit {
		return maxLimit
	}
	q, _ := bits.Div64(hi, lo, c.From.unit)
	return min(q, maxLimit)
}

// state converts a state of the old limit to the new one, 0 if it has no meaning there. The
// word of a log follows from its times. A window that has not begun is from another clock,
// which was ahead. It would deny until it begins, so it is forgotten.
func (c *Carry) state(tat uint64) uint64 {
	switch {
	case c.To.Windowed() && c.To.WindowOf(tat) > c.To.Window(c.Now):
		return 0
	case c.To.period != 0:
		return tat
	case tat <= c.FromNow:
		return 0
	}
	level, most := c.level(tat)
	if level = min(level, most); level > 0 {
		return c.Now + level
	}
	return 0
}

// level returns the level of a bucket at FromNow by the new limit, and the maximum there.
func (c *Carry) level(tat uint64) (level, most uint64) {
	most = c.To.limit
	if c.Whole {
		most = maxFine
	}
	// Without the part that may be from rounding the clock, for which the new limit may
	// have no room.
	level = tat - c.FromNow
	return c.Level(level - min(level, c.From.Grace())), most
}

// ticks converts the time of a request.
func (c *Carry) ticks(now uint64) uint64 {
	if c.To.period != 0 { // windows of both have the same ticks, and those of logs are µs
		return now
	}
	return now / c.From.perMicro * c.To.perMicro
}

// follower passes charges of a table on to the one that has taken its buckets over. A table
// is alive as long as one of its copies. A follower does not keep its table alive: a table
// that is gone is not used, but charges are still passed on to those that came after it
// (package chain).
type follower struct {
	carry Carry // to the next table
	way   Carry // to the first table that is alive

	// since has a bit for each client, shared with some others, that was charged to the old
	// table after the new one got its buckets. Set under the lock of the client's set.
	since *[64]atomic.Uint64
}

// join returns the way past a table that is gone. Of the units that had to be dropped, only
// the first table's part is still known.
func join(first, second *follower) *follower {
	way := second.way
	way.From, way.FromNow = first.way.From, first.way.FromNow
	return &follower{carry: first.carry, way: way, since: first.since}
}

// following leads from a table to its successor, which may be gone.
type following = chain.Edge[Table, follower]

// mark records that d is charged to the old table. e may be nil.
func mark(e *following, d sketch.Digest) {
	if e != nil {
		word, bit := e.Way.bitOf(d)
		word.Or(bit)
	}
}

func (f *follower) bitOf(d sketch.Digest) (word *atomic.Uint64, bit uint64) {
	return &f.since[d.ID>>6%uint64(len(f.since))], 1 << (d.ID & 63)
}

// droppedOf returns the part of the bucket of d for which the new limit had no room, in
// ticks of that limit. tat is the bucket in the old table, whose lock is held, after the
// refund there. The result is 0 if the part is not known: if the bucket has drained, or was
// charged since, as the refund may be of that charge. e may be nil.
func droppedOf(e *following, d sketch.Digest, tat, now uint64) uint64 {
	if e == nil || e.Way.carry.To.period != 0 || tat <= max(now, e.Way.carry.FromNow) {
		return 0
	}
	f := e.Way
	if word, bit := f.bitOf(d); word.Load()&bit != 0 {
		return 0
	}
	level, most := f.carry.level(tat)
	return level - min(level, most)
}

// passCharge makes the successor count a charge of d here, or a denial that counts all the
// same. e is the successor at the time of the charge, under the lock: later successors have
// read the charge.
func (t *Table) passCharge(e *following, d sketch.Digest, c charge) {
	if c.cost == 0 {
		return
	}
	if next, f := t.chain.Beyond(e); next != nil {
		next.charge(d, charge{now: f.way.ticks(c.now), cost: f.way.Level(c.cost), must: !c.denied, counted: c.denied})
	}
}

// passRefund makes the successor give back what was given back here: no less than was
// charged there, which excludes what was dropped. dropped is in ticks of the first
// successor.
func (t *Table) passRefund(e *following, d sketch.Digest, now, cost, dropped uint64) {
	next, f := t.chain.Beyond(e)
	if next == nil {
		return
	}
	first := Carry{From: f.carry.To, To: f.way.To}
	if cost, dropped = f.way.LevelUp(cost), first.Level(dropped); cost > dropped {
		next.Refund(d, f.way.ticks(now), cost-dropped)
	}
}

func (t *Table) passReset(e *following, d sketch.Digest) {
	if next, _ := t.chain.Beyond(e); next != nil {
		next.Reset(d)
	}
}

// InitAfter is Init for a table that is to take over the buckets of another, and its counts
// of evictions.
func (t *Table) InitAfter(old *Table, shape Shape, n int) error {
	return t.init(shape, n, new([stripes]stripe), old.lost)
}

// TakeOver enters all undrained buckets of old, which had another limit or size, and makes
// t count later charges to old. t must not be in use yet. Until TakeOver returns, charges
// to buckets of old wait, about 0.2 µs for each bucket that has not drained; lookups do
// not. at is called while they wait, for the moment of the change. TakeOver returns the
// highest level that any bucket has now, in ticks, for a log in units.
//
// A table has one successor at a time, the last, and through it that one's successors.
func (t *Table) TakeOver(old *Table, at func() Carry) (highest uint64) {
	old.lockAll()
	defer old.unlockAll()
	c := at()
	quiet := *t // the locks of t may be those of old, which are held
	quiet.locks = new([stripes]stripe)
	for x := range uint64(len(old.sets)) {
		if old.marksOf(x) != 0 {
			highest = max(highest, quiet.enterAll(old, x, &c))
		}
	}
	t.chain.Follow(old.chain, &follower{carry: c, way: c, since: new([64]atomic.Uint64)})
	return highest
}

// Unfollowed removes the table's successor.
func (t *Table) Unfollowed() {
	t.lockAll()
	t.chain.End()
	t.unlockAll()
}

// Merge raises the buckets of t to those of from, which has the same clients, by maximum.
// Both may be in use, but must not be merged into each other at the same time. Later
// charges to from do not count here.
func (t *Table) Merge(from *Table, c Carry) {
	for x := range uint64(len(from.sets)) {
		if from.marksOf(x) == 0 {
			continue
		}
		mu := from.lock(x)
		mu.Lock()
		t.enterAll(from, x, &c)
		mu.Unlock()
	}
}

// Highest returns the highest level of any bucket, in ticks, for a log in units.
func (t *Table) Highest(now uint64) (highest uint64) {
	for x := range uint64(len(t.sets)) {
		if t.marksOf(x) == 0 {
			continue
		}
		mu := t.lock(x)
		mu.Lock()
		for i := range t.sets[x] {
			if t.liveAt(x, i, t.sets[x][i].tat, now) {
				highest = max(highest, t.levelLocked(x, i, now))
			}
		}
		mu.Unlock()
	}
	return highest
}

// marksOf returns the marks of set x.
func (t *Table) marksOf(x uint64) uint64 {
	return atomic.LoadUint64(&t.marks[x/marksWord]) >> (x * markBits & 63) & (inUse | spilled)
}

// enterAll enters the undrained buckets of set x of from, and returns their highest level.
func (t *Table) enterAll(from *Table, x uint64, c *Carry) (highest uint64) {
	for i := range from.sets[x] {
		e := &from.sets[x][i]
		if !from.liveAt(x, i, e.tat, c.FromNow) {
			continue
		}
		ch := charge{now: c.Now, must: true}
		if t.logs != nil {
			l := from.logs.at(x, i)
			ch.times = &times{l, c.Now - c.FromNow}
			highest = max(highest, uint64(l.live(c.FromNow)))
		} else {
			if ch.least = c.state(e.tat); ch.least == 0 {
				continue
			}
			highest = max(highest, t.shape.Level(ch.least, c.Now))
		}
		id, home := e.tag^e.tat, x
		if from.guestLocked(x, i) {
			home = from.other(x, id)
		}
		t.enterAt(from, home, id, ch)
	}
	return highest
}

// enterAt enters a bucket with that home in from, in each set that may be its home in t.
func (t *Table) enterAt(from *Table, home, id uint64, c charge) {
	n, m := uint64(len(from.sets)), uint64(len(t.sets))
	lo, hi := (home<<32+n-1)/n, ((home+1)<<32+n-1)/n // of the bits of Pos that index uses
	for pos := lo; pos < hi; {
		set := pos * m >> 32
		t.charge(sketch.Digest{Pos: pos << 8, ID: id}, c)
		pos = ((set+1)<<32 + m - 1) / m
	}
}

// times are those of a log, by a clock that is behind by shift.
type times struct {
	log   log
	shift uint64 // modulo 2^64: it may be ahead
}

// takeOver joins the log with other by maximum: each of its times becomes the later one of
// both, as far as it has room. Both know some of the charges of one client. If one is an
// older copy of the other, the result is the newer one.
func (l log) takeOver(other *times) {
	next, n := l.place()
	_, m := other.log.place()
	for k := range min(m, l.size()) {
		t := other.log.latest(k) + other.shift
		if t > math.MaxInt64 { // before the clock's zero, as are all that follow
			break
		}
		if k < n {
			t = max(t, l.latest(k))
		}
		l.words[logHead+(next+l.size()-1-k)%l.size()] = t
		l.set(next, max(n, k+1))
	}
}

func (t *Table) lockAll() {
	for i := range t.locks {
		t.locks[i].Lock()
	}
}

func (t *Table) unlockAll() {
	for i := range t.locks {
		t.locks[i].Unlock()
	}
}
