package httpbench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/fastlimit/fastlimit/bench/load"
	"github.com/fastlimit/fastlimit/bench/report"
)

// closed measures what each server can do, and then how long answers take at a
// rate that all can do.
func (o Options) closed(ctx context.Context, all []*running, p phase, c load.SpinConfig, on []int) (results []report.Result, err error) {
	c.Requests = int64(o.Requests)
	rounds, err := o.warmRounds(ctx, all, c, on)
	for i, m := range rounds {
		if len(m.perSecond) > 0 {
			results = append(results, m.result(all[i].result(p.name), p.status))
		}
	}
	if err != nil {
		return results, err
	}
	compare(all, results, rounds, "requests/s", func(m *round) []float64 { return m.perSecond })
	compare(all, results, rounds, "CPU", func(m *round) []float64 { return m.micros })
	if !o.noOpen {
		c.Requests, c.Rate, c.Duration = 0, o.Rate, max(o.Duration/2/time.Duration(o.Rounds), shortest)
		open, err := o.rounds(ctx, all, c, on)
		if err != nil {
			return results, err
		}
		for i := range open {
			open[i].latencies(&results[i])
		}
		compare(all, results, open, "p99", func(m *round) []float64 { return m.p99 })
	}
	for i, r := range all {
		if !o.Syscalls {
			break
		}
		// Not timed, and after what is: a tracer slows the server down.
		if err := syscalls(ctx, r, c, on, &results[i]); err != nil {
			return results, err
		}
	}
	return results, nil
}

// shortest is the least that a round of an open loop lasts: at 10,000 requests/s ten
// are beyond its p99.
const shortest = 100 * time.Millisecond

// compare says how the first server did beside each of the others.
func compare(all []*running, results []report.Result, rounds []round, what string, of func(*round) []float64) {
	for i := 1; i < len(rounds); i++ {
		text := fmt.Sprintf("%s %s", what, ratios(of(&rounds[0]), of(&rounds[i])))
		if results[i].Verdict == "" {
			text = all[0].server.Name + " to this one: " + text
		}
		results[i].Verdict = join(results[i].Verdict, text)
	}
}

// join joins what is said of a result.
func join(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), "; ")
}

// rounds runs a load against each server, in rounds that take turns; each begins
// with another server. They are valid beside an error.
func (o Options) rounds(ctx context.Context, all []*running, c load.SpinConfig, on []int) ([]round, error) {
	rounds := make([]round, len(all))
	for n := range o.Rounds {
		for i := range all {
			i = (i + n) % len(all)
			g, err := generate(ctx, all[i], c, on)
			if err != nil {
				return rounds, err
			}
			rounds[i].add(g)
		}
	}
	return rounds, nil
}

// warmRounds are rounds after one that is not counted: caches, and the clients' way
// over their limit.
func (o Options) warmRounds(ctx context.Context, all []*running, c load.SpinConfig, on []int) ([]round, error) {
	warm := c
	warm.Requests, warm.Probe = int64(o.Requests), nil
	for _, r := range all {
		if _, err := generate(ctx, r, warm, on); err != nil {
			return nil, err
		}
	}
	return o.rounds(ctx, all, c, on)
}

// round collects the rounds of one server. The zero value has none.
type round struct {
	perSecond, micros, p99, idle []float64 // by round; idle is of the generator

	requests, denied, broken, failures, unsent int64 // broken: answers 5xx
	failure                                    string
	void                                       int // rounds in which the generator was the limit
	latency, service                           *hdrhistogram.Histogram

	busy, probeP50, probeP99 []float64 // by round; busy is the server's share of its core
	probes, probeDenied      int64
}

// add notes one round.
func (m *round) add(g generated) {
	done := float64(g.Total())
	m.perSecond = append(m.perSecond, done/g.Elapsed.Seconds())
	m.micros = append(m.micros, g.CPU.Seconds()*1e6/done)
	m.idle = append(m.idle, g.EmptyShare())
	m.requests += g.Total()
	m.denied += g.Denied()
	m.broken += g.Class(5)
	m.failures += g.Failed
	m.unsent += g.Unsent
	if g.Failed > 0 {
		m.failure = g.Failure
	}
	if g.Void() {
		m.void++
	}
	if m.latency == nil {
		m.latency, m.service = load.NewHistogram(), load.NewHistogram()
	}
	latency := hdrhistogram.Import(g.Latency)
	m.latency.Merge(latency)
	m.service.Merge(hdrhistogram.Import(g.Service))
	m.p99 = append(m.p99, report.Micros(latency, 99))
	m.busy = append(m.busy, g.CPU.Seconds()/g.Elapsed.Seconds())
	if g.Probe == nil {
		return
	}
	probe := hdrhistogram.Import(g.Probe)
	m.probes += probe.TotalCount()
	m.probeP50 = append(m.probeP50, report.Micros(probe, 50))
	m.probeP99 = append(m.probeP99, report.Micros(probe, 99))
	m.probeDenied += g.ProbeDenied
}

// result is the medians over the rounds.
func (m *round) result(res report.Result, status int) report.Result {
	res.Requests, res.Denied = m.requests, new(float64(m.denied)/float64(m.requests))
	res.PerSecond, res.CPUMicros = new(report.Median(m.perSecond)), new(report.Median(m.micros))
	res.GeneratorIdle = new(report.Median(m.idle))
	other := m.denied
	if load.Denial(status) {
		other = m.requests - m.denied
	}
	// A few are admitted at the rate of the rule, and a burst of each client.
	if other*20 > m.requests {
		res.Error = fmt.Sprintf("%d of %d answers are not %d", other, m.requests, status)
	}
	res.Error = join(res.Error, m.problem())
	return res
}

// latencies adds those of rounds of an open loop to the result of closed ones.
func (m *round) latencies(res *report.Result) {
	fillLatencies(res, m.latency, m.service)
	problem := m.problem()
	if m.unsent > 0 {
		problem = join(problem, fmt.Sprintf("%d requests could not be sent in time", m.unsent))
	}
	if problem != "" {
		res.Error = join(res.Error, "open loop: "+problem)
	}
}

// problem is what makes the figures doubtful.
func (m *round) problem() (text string) {
	if m.void > 0 {
		text = fmt.Sprintf("void: the generator was the limit in %d of %d rounds", m.void, len(m.idle))
	}
	if m.broken > 0 {
		text = join(text, fmt.Sprintf("%d answers 5xx", m.broken))
	}
	if m.failures > 0 {
		text = join(text, fmt.Sprintf("%d requests failed (%s)", m.failures, m.failure))
	}
	return text
}

// OpenResult adds the outcome of an open loop to a result.
func OpenResult(res report.Result, out *load.Outcome) report.Result {
	latencies(&res, out)
	res.Requests = out.Total()
	res.Denied = new(float64(out.Denied()) / float64(out.Total()))
	var shed [][2]float64
	for i, v := range out.Intervals {
		if v.Answers > 0 { // at the middle of the interval
			at := (float64(i) + 0.5) * load.Step.Seconds()
			shed = append(shed, [2]float64{at, float64(v.Denied) / float64(v.Answers)})
		}
	}
	res.Series["shed"] = shed
	return res
}

// latencies adds those of an open loop to a result.
func latencies(res *report.Result, out *load.Outcome) {
	fillLatencies(res, out.Latency, out.Service)
	if out.Failed > 0 || out.Unsent > 0 {
		res.Error = fmt.Sprintf("%d requests failed (%v), %d could not be sent in time", out.Failed, out.Failure, out.Unsent)
	}
}

// fillLatencies has both, corrected for coordinated omission and not.
func fillLatencies(res *report.Result, latency, service *hdrhistogram.Histogram) {
	res.LatencyMicros = report.Latencies(latency)
	res.Series = map[string][][2]float64{
		"latency_us":          distribution(latency),
		"latency_omission_us": distribution(service),
	}
}

// distribution is latency in µs by percentile.
func distribution(h *hdrhistogram.Histogram) [][2]float64 {
	points := [][2]float64{{0, report.Micros(h, 0)}}
	for _, p := range []float64{50, 75, 90, 95, 97.5, 99, 99.5, 99.9, 99.99} {
		if 1-p/100 < 2/float64(h.TotalCount()) {
			break // fewer than two requests beyond it
		}
		points = append(points, [2]float64{p, report.Micros(h, p)})
	}
	return points
}
