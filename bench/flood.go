package bench

import (
	"encoding/json"
	"errors"
	"math"
	"time"
)

// floodJob sends a flood of distinct clients through one limiter, each once,
// and hides one heavy hitter among them.
type floodJob struct {
	Keys   int64
	Pulses bool
	Cap    int64 // resident bytes at which the limiter is stopped
}

// floodReport is how far a flood has come.
type floodReport struct {
	Keys, Decisions int64
	Done            bool
	Took            time.Duration
	Paced           bool // Took is due to the flood, not the limiter

	RSS, Warm int64 // now, and after warm-up

	Offered, Admitted, Limit int64 // the hitter: sent, admitted, what an exact bucket admits
	Excess                   float64
	FalseDenials             int64
}

const (
	// floodRate is the clients per second of the flood in the time that
	// limiters are told, less where the flood would be over sooner than
	// floodTime. Limiters that read the clock themselves get no more than that
	// in real time.
	floodRate = 1e6
	floodTime = 10 * time.Second
	// hitterLoad is the hitter's rate to its limit.
	hitterLoad = 10
	// hitterID is the hitter's client number, which the flood never reaches.
	hitterID = math.MaxUint32

	floodWarm  = 1_000_000 // keys until memory is measured first, or a tenth
	floodCheck = 1 << 16   // keys between two looks at the memory
)

// hitter is the heavy client: ten times its limit all the time, or in pulses
// of B/r with pauses of half of that, in which its bucket leaks half.
type hitter struct {
	gap, on, off time.Duration // off is 0 for a steady one
	next         time.Duration
	pulseEnd     time.Duration
	sent         int64
}

func newHitter(r Rule, pulses bool) *hitter {
	h := &hitter{gap: time.Duration(float64(time.Second) / (hitterLoad * r.Rate.PerSecond()))}
	h.on, h.pulseEnd = math.MaxInt64, math.MaxInt64
	if pulses {
		h.on, h.off = r.Window(), r.Window()/2
		h.pulseEnd = h.on
	}
	return h
}

// due tells whether a request is due by now, and schedules the next one.
func (h *hitter) due(now time.Duration) bool {
	if h.next > now {
		return false
	}
	h.sent++
	if h.next += h.gap; h.next >= h.pulseEnd {
		h.next = h.pulseEnd + h.off
		h.pulseEnd = h.next + h.on
	}
	return true
}

// flood is a running floodJob.
type flood struct {
	floodJob
	limiter Limiter
	hitter  *hitter
	oracle  *Oracle
	rate    float64 // clients per second
	begin   time.Time
	elapsed func() time.Duration // nil if the limiter is told the time
	warm    int64
}

func (j *floodJob) run(c Contender, rule Rule, out *json.Encoder) (err error) {
	f := flood{
		floodJob: *j, hitter: newHitter(rule, j.Pulses), begin: time.Now(),
		rate: min(floodRate, float64(j.Keys)/floodTime.Seconds()),
	}
	if c.OwnClock {
		f.elapsed = func() time.Duration { return time.Since(f.begin) }
	}
	if f.oracle, err = NewOracle(rule, 1, 1<<32); err != nil {
		return err
	}
	if f.limiter, err = c.New(rule); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLimiter(f.limiter)) }()
	warm := min(floodWarm, j.Keys/10)
	for first := int64(0); first < j.Keys; {
		next := min(first+floodCheck, j.Keys)
		if first < warm {
			next = min(next, warm)
		}
		f.send(first, next)
		r, err := f.report(next, next == warm)
		if err != nil {
			return err
		}
		if err := out.Encode(report{Flood: &r}); err != nil || r.Done {
			return err
		}
		first = next
	}
	return nil
}

// send lets the clients numbered from first to last-1 pass, and the hitter
// whenever it is due.
func (f *flood) send(first, last int64) {
	hot := v4(hitterID)
	for key := first; key < last; key++ {
		now := time.Duration(float64(key) / f.rate * float64(time.Second))
		if f.elapsed != nil {
			now = waitUntil(f.begin, now)
		}
		for f.hitter.due(now) {
			f.oracle.Observe(f.limiter, 0, hot, now, f.elapsed)
		}
		f.limiter.Allow(v4(uint32(key)), now)
	}
}

func (f *flood) report(keys int64, warm bool) (floodReport, error) {
	rss, err := residentBytes()
	if warm {
		f.warm = rss
	}
	v := f.oracle.Verdict()
	return floodReport{
		Keys: keys, Decisions: keys + v.Requests, Took: time.Since(f.begin), Paced: f.elapsed != nil,
		Done: keys == f.Keys || rss > f.Cap,
		RSS:  rss, Warm: f.warm,
		Offered: v.Requests, Admitted: v.Requests - v.Denied, Limit: v.Requests - v.DeniedExactly,
		Excess: v.Excess, FalseDenials: v.FalseDenials,
	}, err
}
