package conn

import "sync/atomic"

// phase is what a connection is doing.
type phase uint32

const (
	fresh      phase = iota // accepted; nothing has arrived
	reading                 // the head of a request, since its first byte
	body                    // reading what follows the head, and dropping it
	writing                 // deciding, and sending the response
	queued                  // the request waits for its slot
	idle                    // waiting for the next request
	idleDenied              // the same, and the last answer was a denial
	lingering               // the last answer is out; what the client still sends is dropped
	opens                   // reading what comes before the first request, from its first byte
	asking                  // an upstream has the request, and has not answered yet
	sending                 // waiting for the body of a request, for an upstream
	tunneling               // bytes go both ways; since the last one
	streaming               // a Session with streams, which have phases of their own
	phases
)

// waiting reports whether no byte of a request has arrived.
func (p phase) waiting() bool { return p == fresh || p == idle || p == idleDenied }

// since is a phase and the tick in which it began, in one word.
type since uint64

func sinceTick(p phase, tick uint32) since { return since(p)<<32 | since(tick) }

func (s since) phase() phase { return phase(s >> 32) }

func (s since) tick() uint32 { return uint32(s) }

// age is how many ticks ago it began.
func (s since) age(tick uint32) uint32 {
	age := tick - s.tick()
	if int32(age) < 0 {
		return 0 // it began in a tick after the one given
	}
	return age
}

// activity is what a connection does, and since when. Its goroutine changes it, as does the one that sends a
// request's body or the client's half of a tunnel. Any goroutine may read it, so that sweeps and evictions
// cost requests no lock.
type activity struct{ word atomic.Uint64 }

func (a *activity) since() since { return since(a.word.Load()) }

func (a *activity) phase() phase { return a.since().phase() }

// proceed begins a phase whose time counts from the beginning of the previous one.
func (a *activity) proceed(p phase) { a.word.Store(uint64(sinceTick(p, a.since().tick()))) }

// arrive begins a phase with the first byte of something. On a new connection its time counts from when it
// was accepted, so that a client cannot get it twice.
func (a *activity) arrive(p phase, tick uint32) {
	if was := a.since(); was.phase() == fresh {
		tick = was.tick()
	}
	a.word.Store(uint64(sinceTick(p, tick)))
}

// replace begins a phase in place of another, unless another goroutine has begun a third.
func (a *activity) replace(from, to phase, tick uint32) {
	if was := a.since(); was.phase() == from {
		a.word.CompareAndSwap(uint64(was), uint64(sinceTick(to, tick)))
	}
}

// enter begins a phase.
func (c *Conn) enter(p phase) { c.word.Store(uint64(sinceTick(p, c.conns.tick.Load()))) }
