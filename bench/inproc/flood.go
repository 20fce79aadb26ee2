package inproc

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit/bench/oracle"
	"github.com/fastlimit/fastlimit/bench/proc"
	"github.com/fastlimit/fastlimit/bench/report"
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
	Keys    int64
	Reached bool             // one of the job's numbers
	Stopped bool             // before its time; the results say why
	Results [2]report.Result // for the steady hitter, and for the one in pulses
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
	contender Contender
	rule      oracle.Rule
	limiter   Limiter
	hitters   [2]*hitter // steady, in pulses
	rate      float64    // clients per second
	begin     time.Time
	elapsed   func() time.Duration // nil if the limiter is told the time
	warm      int64                // resident bytes after warm-up, 0 before
	innocents int64
}

func (j *floodJob) run(c Contender, rule oracle.Rule, out *json.Encoder) (err error) {
	// Without a limit the heap grows to twice its live size before a collection,
	// and the limiter would be stopped at the cap for garbage.
	debug.SetMemoryLimit(j.Cap - j.Cap/8)
	f := flood{floodJob: *j, contender: c, rule: rule, begin: time.Now(), rate: rateOf(j.Keys[0])}
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
		if err := out.Encode(answer{Flood: &r}); err != nil || r.Stopped {
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
	took, stopped := time.Since(f.begin), ""
	if keys < f.Keys[len(f.Keys)-1] {
		switch {
		case rss > f.Cap:
			stopped = fmt.Sprintf("grew past %d MiB at %.3g million keys", f.Cap>>20, float64(keys)/1e6)
		case took > f.Patience:
			stopped = fmt.Sprintf("stopped after %v at %.3g million keys", f.Patience, float64(keys)/1e6)
		}
	}
	r := floodReport{Keys: keys, Stopped: stopped != "", Results: floodResults(f.contender, keys, stopped)}
	decisions := keys
	for _, h := range f.hitters {
		decisions += h.oracle.Verdict().Requests
	}
	for i, h := range f.hitters {
		v, res := h.oracle.Verdict(), &r.Results[i]
		res.Requests, res.RSSBytes, res.RSSGrowth = decisions, &rss, new(rss-f.warm)
		res.Excess, res.FalseDenials = &v.Excess, new(v.FalseDenials+f.innocents)
		res.ConformingDenied = new(v.ConformingDenied + f.innocents)
		res.HitterAdmitted = new(float64(v.Requests-v.Denied) / float64(max(1, v.Requests-v.DeniedExactly)))
		res.Verdict = f.verdict(v.Excess, keys, rss)
		if f.elapsed == nil { // else the flood decides how long it takes
			res.NsPerOp = new(float64(took) / float64(decisions))
		}
	}
	return r, errors.Join(err, failure(f.limiter))
}

// floodResults are the results of a flood, still without figures.
func floodResults(c Contender, keys int64, problem string) (both [2]report.Result) {
	for i, name := range [2]string{"flood, steady hitter", "flood, hitter in pulses"} {
		both[i] = report.Result{Group: "memory", Workload: name, Limiter: c.Name, Setup: c.Setup, Keys: keys, Error: problem}
	}
	return both
}

// verdict says what a flood did to a limiter. A hitter is held if it got at most
// another burst beyond its rate and burst, as at the edge of a window: one
// whose bucket is forgotten gets that again and again. Memory that grows by a
// quarter and 16 MiB, once a tenth of the flood or a million clients have
// passed, is said to grow.
func (f *flood) verdict(excess float64, keys, rss int64) string {
	const quarter, least = 4, 16 << 20
	says := []string{"holds the hitter", "memory is flat"}
	if excess > float64(f.rule.Burst) {
		says[0] = "loses the hitter"
	}
	if grown := rss - f.warm; f.warm > 0 && grown > f.warm/quarter && grown > least {
		says[1] = "memory grows"
	}
	if f.innocents > 0 {
		says = append(says, fmt.Sprintf("denies %.2g %% of the others", 100*float64(f.innocents)/float64(keys)))
	}
	return strings.Join(says, ", ")
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
