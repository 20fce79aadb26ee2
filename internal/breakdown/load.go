package breakdown

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/internal/marks"
	"github.com/fastlimit/fastlimit/sketch"
	"github.com/fastlimit/fastlimit/toptalkers"
)

// notesPerSecond is roughly how many requests a second are counted. Each takes half a microsecond: 0.05 % of
// a core.
const notesPerSecond = 1024

// Load counts a sample of the requests of the last 5 to 10 seconds. It is safe for concurrent
// use. The zero value is not usable: call [NewLoad].
type Load struct {
	grain sketch.Grain

	mu        sync.Mutex
	waiting   [notesPerSecond]note // to be counted
	waits     int
	now, last *Tally // since the last mark, and since the one before
	marked    [2]time.Time
	ticked    time.Time
	grains    marks.Peaks // of the units of notes
}

// note is a request to be counted. Requests leave notes rather than count themselves, because their
// goroutine, which may later serve an idle connection, would keep the stack that counting takes: 2 kB
// (TestIdleConnectionsHoldLittle).
type note struct {
	q      Request // whose texts are in the next three
	method [32]byte
	path   [longest]byte
	agent  [longest]byte
	units  uint64
}

// NewLoad returns an empty Load.
func NewLoad(now time.Time) *Load {
	l := &Load{now: new(Tally), last: new(Tally), marked: [2]time.Time{now, now}, ticked: now}
	l.grain.Init(notesPerSecond, notesPerSecond)
	return l
}

// Drawn decides at random whether a request is counted. It returns as how many, or 0.
func (l *Load) Drawn() (units uint64) {
	mask := l.grain.Mask()
	if mask != 0 && rand.Uint64()&mask != 0 {
		return 0
	}
	return mask + 1
}

// Note counts a request that Drawn has chosen.
func (l *Load) Note(q *Request, units uint64) {
	l.grain.Note(units)
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.nextLocked(units)
	n.q = Request{
		Client: q.Client, Status: q.Status, Denied: q.Denied, Method: n.method[:copy(n.method[:], q.Method)],
		Path: n.path[:copy(n.path[:], q.Path)], Agent: n.agent[:copy(n.agent[:], q.Agent)],
	}
}

// nextLocked returns the slot of the next note.
func (l *Load) nextLocked(units uint64) *note {
	if l.waits == len(l.waiting) {
		l.countLocked()
	}
	n := &l.waiting[l.waits]
	l.waits++
	l.grains.Note(units)
	n.units = units
	return n
}

// countLocked counts the notes.
func (l *Load) countLocked() {
	for i := range l.waiting[:l.waits] {
		if n := &l.waiting[i]; n.q.answer {
			l.now.answered(n.q.Status, n.units)
		} else {
			l.now.Add(&n.q, n.units)
		}
	}
	l.waits = 0
}

// Answered counts the status of a request that was noted without one.
func (l *Load) Answered(status int, units uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nextLocked(units).q = Request{Status: status, answer: true}
}

// Tick chooses g by the requests since the last call, and drops old counts. Call it about once a second.
func (l *Load) Tick(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.countLocked()
	l.grain.Pace(now.Sub(l.ticked))
	l.ticked = now
	if now.Sub(l.marked[1]) < marks.Every {
		return
	}
	l.marked = [2]time.Time{l.marked[1], now}
	l.now, l.last = l.last, l.now
	l.now.Reset()
	l.grains.Roll()
}

// Share is a group and its share of the load.
type Share struct {
	Group string `json:"group"`
	// Rate is how many requests per second the group has, a lower bound; Denied is how many of
	// them were denied. The true rate is within Rate ± Error, except once in a million times.
	Rate   float64 `json:"rate"`
	Error  float64 `json:"error"`
	Denied float64 `json:"denied"`
	// Share is Rate divided by the rate of all.
	Share float64 `json:"share"`
}

// Top returns the rate of all requests, per second, and the n largest groups.
func (l *Load) Top(by By, n int, now time.Time) (all float64, top []Share) {
	l.mu.Lock()
	l.countLocked()
	window := max(now.Sub(l.marked[0]), time.Second).Seconds()
	before, lately, grain := l.last.copyOf(by), l.now.copyOf(by), l.grains.Lately()
	l.mu.Unlock() // the rest takes a millisecond, for which requests would wait
	total := float64(before.Total(by) + lately.Total(by))
	groups := Groups(by, before, lately)
	for _, g := range groups[:min(n, len(groups))] {
		doubt := toptalkers.Doubt{Units: g.Error, Grain: grain}
		top = append(top, Share{
			Group: g.Text(), Rate: float64(g.Units) / window, Denied: float64(g.Denied) / window,
			Error: doubt.Of(g.Units) / window, Share: float64(g.Units) / total,
		})
	}
	return total / window, top
}
