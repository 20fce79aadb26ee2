package bucket

import (
	"math"
	"math/bits"
	"sync/atomic"
	"weak"

	"github.com/fastlimit/fastlimit/sketch"
)

// # Another limit for the same clients
//
// A table cannot change its shape while requests use it, so another limit has another
// table, which takes the buckets over ([Table.TakeOver]). What a bucket holds is units, so
// they stay:
//
//	level' = min((level - grace) / T · T', B'·T')     rounded down: nobody is denied for the rounding
//
// and from then on they leak by the new limit. What a window has counted stays, and of a log
// the newest N' times.
//
// Both tables may be used for a while: requests that have begun by the old limit finish by it.
// Each unit counts once in the new table. For a bucket is read, entered in the new table, and
// followed by it from then on (follower), while all locks of the old table are held: what was
// charged before is in the bucket that is read, and what is charged later goes to both tables.
//
// An entry has no Pos, which is more than tells its home. Where tables differ in size, a bucket
// is entered in each set that could be its home in the new one: a copy at the wrong one is
// never found, and drains.

// Carry is between which limits, and when, states are converted.
type Carry struct {
	From, To Shape
	// FromNow and Now are the same moment by both clocks: of buckets and logs in ticks, of
	// windows in those of WindowTicks. A later FromNow makes levels lower.
	FromNow, Now uint64
	// Whole keeps levels above a full bucket of the new limit: those of [Shape.At] may be.
	Whole bool
}

// Takes reports whether a state by another limit says anything to this one: if both leak, or
// count in windows of one period, or keep logs of one.
func (s *Shape) Takes(other *Shape) bool {
	return s.algorithm.family() == other.algorithm.family() && s.period == other.period
}

// SameTicks reports whether ticks and units, or periods, are the same.
func (s *Shape) SameTicks(other *Shape) bool {
	return s.Takes(other) && s.perMicro == other.perMicro && s.unit == other.unit
}

// SharesStates reports whether a state means the same by both limits: of equal ones, and of
// windows of one period, whose states hold no limit.
func (s *Shape) SharesStates(other *Shape) bool {
	return *s == *other || s.Windowed() && s.Takes(other)
}

// SameBuckets reports whether both have the same buckets.
func (t *Table) SameBuckets(other *Table) bool { return &t.sets[0] == &other.sets[0] }

// family is the algorithm, but for the two names of one.
func (a Algorithm) family() Algorithm {
	if a == TokenBucket {
		return LeakyBucket
	}
	return a
}

// Level converts a level, rounded down.
func (c *Carry) Level(level uint64) uint64 { return c.scale(level, 0) }

// LevelUp converts a level, rounded up.
func (c *Carry) LevelUp(level uint64) uint64 { return c.scale(level, c.From.unit-1) }

// scale is level·T'/T, of which so much is added to the product; at most maxLimit, which is
// more than any bucket holds.
func (c *Carry) scale(level, add uint64) uint64 {
	hi, lo := bits.Mul64(level, c.To.unit)
	lo, carry := bits.Add64(lo, add, 0)
	if hi += carry; hi >= c.From.unit {
		return maxLimit
	}
	q, _ := bits.Div64(hi, lo, c.From.unit)
	return min(q, maxLimit)
}

// state is what a state of the old limit's is by the new one, 0 if it says nothing. The word
// of a log follows from its times.
func (c *Carry) state(tat uint64) uint64 {
	switch {
	case c.To.period != 0:
		return tat
	case tat <= c.FromNow:
		return 0
	}
	most := c.To.limit
	if c.Whole {
		most = maxFine
	}
	// Without what rounding the clock may have added, for which the new limit may have no room.
	level := tat - c.FromNow
	level -= min(level, c.From.Grace())
	if level = min(c.Level(level), most); level > 0 {
		return c.Now + level
	}
	return 0
}

// ticks converts the time of a request.
func (c *Carry) ticks(now uint64) uint64 {
	if c.To.period != 0 { // windows of both have the same ticks, and those of a log are µs
		return now
	}
	return now / c.From.perMicro * c.To.perMicro
}

// followed is how copies of a table know which one follows it. Guarded by the locks of the
// table, of which writing takes all.
type followed struct{ by *follower }

// follower is a table that has taken the buckets over. It is not kept alive by this: nobody
// uses it if it is gone.
type follower struct {
	table weak.Pointer[Table]
	carry Carry
}

// charged has the table that follows count what has been charged to d here, or been denied
// and counted all the same.
func (f *follower) charged(d sketch.Digest, c charge) {
	t := f.table.Value()
	if t == nil || c.cost == 0 {
		return
	}
	t.charge(d, charge{now: f.carry.ticks(c.now), cost: f.carry.Level(c.cost), must: !c.denied, counted: c.denied})
}

// refunded has it give back what has been given back here: no less than was charged there.
func (f *follower) refunded(d sketch.Digest, now, cost uint64) {
	if t := f.table.Value(); t != nil {
		t.Refund(d, f.carry.ticks(now), f.carry.LevelUp(cost))
	}
}

func (f *follower) reset(d sketch.Digest) {
	if t := f.table.Value(); t != nil {
		t.Reset(d)
	}
}

// InitAfter is Init of a table that is to take over the buckets of another, with its counts
// of what was given up.
func (t *Table) InitAfter(old *Table, shape Shape, n int) error {
	return t.init(shape, n, new([stripes]stripe), old.lost)
}

// TakeOver enters all undrained buckets of old, which has had another limit or size, and has
// t count what is charged to old from then on. Nobody else may use t yet. Until it returns
// whoever charges a bucket of old waits, about 0.2 µs for each bucket that has not drained;
// lookups do not. at is called when they wait, for the moment of the change. TakeOver returns
// the highest level that any bucket has now, in ticks, of a log in units.
//
// A table is followed by one other at a time, the last.
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
	old.followed.by = &follower{weak.Make(t), c}
	return highest
}

// Unfollowed has no table follow this one.
func (t *Table) Unfollowed() {
	t.lockAll()
	t.followed.by = nil
	t.unlockAll()
}

// Merge raises the buckets of t to those of from, which has the same clients, by maximum.
// Both may be in use, but not each for the other at a time. What is charged to from later
// does not count here.
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

// Highest is the highest level of any bucket, in ticks, of a log in units.
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

// marksOf is the marks of set x.
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

// enterAt enters a bucket whose home in from that is, in each set where its home can be in t.
func (t *Table) enterAt(from *Table, home, id uint64, c charge) {
	n, m := uint64(len(from.sets)), uint64(len(t.sets))
	lo, hi := (home<<32+n-1)/n, ((home+1)<<32+n-1)/n // of the bits that index has of Pos
	for pos := lo; pos < hi; {
		set := pos * m >> 32
		t.charge(sketch.Digest{Pos: pos << 8, ID: id}, c)
		pos = ((set+1)<<32 + m - 1) / m
	}
}

// times are those of a log, by a clock that is so much behind.
type times struct {
	log   log
	shift uint64 // modulo 2^64: it may be ahead
}

// takeOver makes the log that of other, as far as it has room, unless it counts as many units
// itself.
func (l log) takeOver(other *times, now uint64) {
	if other.log.live(now-other.shift) <= l.live(now) {
		return
	}
	l.clear()
	_, n := other.log.place()
	for k := min(n, l.size()) - 1; k >= 0; k-- {
		if t := other.log.latest(k) + other.shift; t <= math.MaxInt64 { // else before the clock's zero
			l.push(t, 1)
		}
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
