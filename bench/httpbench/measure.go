package httpbench

import (
	"context"
	"fmt"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/fastlimit/fastlimit/bench/load"
	"github.com/fastlimit/fastlimit/bench/report"
)

// closed measures what each server can do, and then how long answers take at a
// rate that all can do.
func (o Options) closed(ctx context.Context, all []*running, p phase, c load.SpinConfig, on []int) (results []report.Result, err error) {
	rounds, err := o.rounds(ctx, all, c, on)
	for i, m := range rounds {
		if len(m.perSecond) > 0 {
			results = append(results, m.result(all[i].result(p.name), p.status))
		}
	}
	if err != nil {
		return results, err
	}
	for i := 1; i < len(all); i++ {
		results[i].Verdict = fmt.Sprintf("%s to this one: requests/s %s; CPU %s", all[0].server.Name,
			ratios(rounds[0].perSecond, rounds[i].perSecond), ratios(rounds[0].micros, rounds[i].micros))
	}
	for i, r := range all {
		// Not timed, and after what is: a tracer slows the server down.
		if o.Syscalls {
			if err := syscalls(ctx, r, c, on, &results[i]); err != nil {
				return results, err
			}
		}
		if o.noOpen {
			continue
		}
		c := c
		c.Rate, c.Duration = o.Rate, o.Duration/2
		g, err := generate(ctx, r, c, on)
		if err != nil {
			return results, err
		}
		openLatencies(&results[i], g)
	}
	return results, nil
}

// rounds runs a closed loop against each server, in rounds that take turns; each
// begins with another server. They are valid beside an error, nil if there are
// none.
func (o Options) rounds(ctx context.Context, all []*running, c load.SpinConfig, on []int) ([]round, error) {
	c.Requests = int64(o.Requests)
	for _, r := range all { // not counted: caches, and the clients' way over their limit
		if _, err := generate(ctx, r, c, on); err != nil {
			return nil, err
		}
	}
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

// round collects the rounds of one server.
type round struct {
	perSecond, micros, idle            []float64 // by round; idle is of the generator
	requests, denied, broken, failures int64     // broken: answers 5xx
	failure                            string
	void                               int // rounds in which the generator was the limit
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
	if g.Failed > 0 {
		m.failure = g.Failure
	}
	if g.Void() {
		m.void++
	}
}

// result is the medians over the rounds.
func (m round) result(res report.Result, status int) report.Result {
	res.Requests, res.Denied = m.requests, new(float64(m.denied)/float64(m.requests))
	res.PerSecond, res.CPUMicros = new(report.Median(m.perSecond)), new(report.Median(m.micros))
	res.GeneratorIdle = new(report.Median(m.idle))
	res.Error = m.problem(status)
	return res
}

// problem is what makes the figures doubtful, where nearly all answers should have
// the status: a few are admitted at the rate of the rule, and a burst of each client.
func (m round) problem(status int) string {
	var all []string
	other := m.denied
	if load.Denial(status) {
		other = m.requests - m.denied
	}
	if other*20 > m.requests {
		all = append(all, fmt.Sprintf("%d of %d answers are not %d", other, m.requests, status))
	}
	if m.void > 0 {
		all = append(all, fmt.Sprintf("void: the generator was the limit in %d of %d rounds", m.void, len(m.idle)))
	}
	if m.broken > 0 {
		all = append(all, fmt.Sprintf("%d answers 5xx", m.broken))
	}
	if m.failures > 0 {
		all = append(all, fmt.Sprintf("%d requests failed (%s)", m.failures, m.failure))
	}
	return strings.Join(all, "; ")
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

// openLatencies adds those of a generator's open loop.
func openLatencies(res *report.Result, g generated) {
	fillLatencies(res, hdrhistogram.Import(g.Latency), hdrhistogram.Import(g.Service))
	var problems []string
	if res.Error != "" {
		problems = append(problems, res.Error)
	}
	if g.Failed > 0 {
		problems = append(problems, fmt.Sprintf("open loop: %d requests failed (%s)", g.Failed, g.Failure))
	}
	if g.Unsent > 0 {
		problems = append(problems, fmt.Sprintf("open loop: %d requests could not be sent in time", g.Unsent))
	}
	res.Error = strings.Join(problems, "; ")
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
