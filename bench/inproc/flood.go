package inproc

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/fastlimit/fastlimit/bench/oracle"
	"github.com/fastlimit/fastlimit/bench/proc"
	"github.com/fastlimit/fastlimit/bench/workload"
)

// floodJob sends a flood of distinct clients through one limiter, each once,
// and hides two clients over their limit among them: a steady one and one in
// pulses.
type floodJob struct {
	Keys     []int64       // at which the limiter is looked at; the last ends the flood
	Cap      int64         // resident bytes at which the limiter is stopped
	Patience time.Duration // after which it is stopped
}

// floodReport is the state of a flood so far.
type floodReport struct {
	Keys, Decisions int64
	Reached         bool   // one of the job's numbers
	Stopped         string // why the flood ends before its time; "" if it does not
	Took            time.Duration
	Paced           bool // Took is due to the flood, not the limiter

	RSS, Warm int64 // now, and after warm-up

	Steady, Pulses hitterReport
	// Innocents is the number of clients of the flood that were denied their
	// only request.
	Innocents int64
}

// hitterReport is what became of a hitter.
type hitterReport struct {
	oracle.Verdict
	Admitted, Limit int64 // what it got, and what an exact bucket admits
}

const (
	// floodRate is the clients per second of the flood in the time that
	// limiters are told, less where the flood would be over sooner than
	// floodTime. Limiters that read the clock themselves get no more than that
	// in real time.
	floodRate = 1e6
	floodTime = 10 * time.Second
	// maxFlood is one more than the largest flood: the last client numbers are
	// those of the hitters.
	maxFlood = math.MaxUint32 - 1

	floodWarm  = 1_000_000 // keys until memory is measured first, or a tenth
	floodCheck = 1 << 16   // keys between two looks at the memory
)

// rateOf is the clients per second of a flood.
func rateOf(keys int64) float64 { return min(floodRate, float64(keys)/floodTime.Seconds()) }

// flood is a running floodJob.
type flood struct {
	floodJob
	limiter   Limiter
	hitters   [2]*hitter // steady, in pulses
	rate      float64    // clients per second
	begin     time.Time
	elapsed   func() time.Duration // nil if the limiter is told the time
	warm      int64
	innocents int64
}

func (j *floodJob) run(c Contender, rule oracle.Rule, out *json.Encoder) (err error) {
	// Without a limit the heap grows to twice its live size before a collection,
	// and the limiter would be stopped at the cap for garbage.
	debug.SetMemoryLimit(j.Cap - j.Cap/8)
	f := flood{floodJob: *j, begin: time.Now(), rate: rateOf(j.Keys[0])}
	if c.OwnClock {
		f.elapsed = func() time.Duration { return time.Since(f.begin) }
	}
	for i := range f.hitters {
		if f.hitters[i], err = newHitter(rule, workload.V4(maxFlood+uint32(i)), i == 1); err != nil {
			return err
		}
	}
	if f.limiter, err = c.New(rule); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLimiter(f.limiter)) }()
	warm := min(floodWarm, j.Keys[0]/10)
	stops := append([]int64{warm}, j.Keys...)
	for first := int64(0); len(stops) > 0; {
		next := min(first+floodCheck, stops[0])
		f.send(first, next)
		r, err := f.report(next, next == warm)
		if err != nil {
			return err
		}
		if next == stops[0] {
			stops, r.Reached = stops[1:], next != warm
		}
		if err := out.Encode(answer{Flood: &r}); err != nil || r.Stopped != "" {
			return err
		}
		first = next
	}
	return nil
}

// send lets the clients numbered from first to last-1 pass, and the hitters
// whenever they are due.
func (f *flood) send(first, last int64) {
	for key := first; key < last; key++ {
		now := time.Duration(float64(key) / f.rate * float64(time.Second))
		if f.elapsed != nil {
			now = waitUntil(f.begin, now)
		}
		for _, h := range f.hitters {
			for h.due(now) {
				observe(h.oracle, f.limiter, 0, h.addr, now, f.elapsed)
			}
		}
		if !f.limiter.Allow(workload.V4(uint32(key)), now) {
			f.innocents++
		}
	}
}

func (f *flood) report(keys int64, warm bool) (floodReport, error) {
	rss, err := proc.SelfRSS()
	if warm {
		f.warm = rss
	}
	steady, pulses := f.hitters[0].report(), f.hitters[1].report()
	r := floodReport{
		Keys: keys, Decisions: keys + steady.Requests + pulses.Requests,
		Took: time.Since(f.begin), Paced: f.elapsed != nil,
		RSS: rss, Warm: f.warm, Steady: steady, Pulses: pulses, Innocents: f.innocents,
	}
	if last := f.Keys[len(f.Keys)-1]; keys < last {
		switch {
		case rss > f.Cap:
			r.Stopped = fmt.Sprintf("grew past %d MiB at %.3g million keys", f.Cap>>20, float64(keys)/1e6)
		case r.Took > f.Patience:
			r.Stopped = fmt.Sprintf("stopped after %v at %.3g million keys", f.Patience, float64(keys)/1e6)
		}
	}
	return r, errors.Join(err, failure(f.limiter))
}

// hitter is a heavy client: ten times its limit all the time, or in pulses of
// B/r with pauses of half of that, in which its bucket leaks half.
type hitter struct {
	addr         netip.Addr
	oracle       *oracle.Oracle
	gap, on, off time.Duration // off is 0 for a steady one
	next         time.Duration
	pulseEnd     time.Duration
}

// hitterLoad is the rate of a hitter as a multiple of its limit.
const hitterLoad = 10

func newHitter(r oracle.Rule, addr netip.Addr, pulses bool) (*hitter, error) {
	oracle, err := oracle.New(r, 1, 1<<32)
	h := &hitter{
		addr: addr, oracle: oracle,
		gap: time.Duration(float64(time.Second) / (hitterLoad * r.Rate.PerSecond())),
		on:  math.MaxInt64, pulseEnd: math.MaxInt64,
	}
	if pulses {
		h.on, h.off = r.Window(), r.Window()/2
		h.pulseEnd = h.on
	}
	return h, err
}

// due tells whether a request is due by now, and schedules the next one.
func (h *hitter) due(now time.Duration) bool {
	if h.next > now {
		return false
	}
	if h.next += h.gap; h.next >= h.pulseEnd {
		h.next = h.pulseEnd + h.off
		h.pulseEnd = h.next + h.on
	}
	return true
}

func (h *hitter) report() hitterReport {
	v := h.oracle.Verdict()
	return hitterReport{v, v.Requests - v.Denied, v.Requests - v.DeniedExactly}
}
