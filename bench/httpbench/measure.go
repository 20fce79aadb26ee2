package httpbench

import (
	"context"
	"fmt"
	"net"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/fastlimit/fastlimit/bench/load"
	"github.com/fastlimit/fastlimit/bench/report"
)

// closed measures what each server can do, and then how long answers take at a
// rate that all can do.
func (o Options) closed(ctx context.Context, all []*running, workload string, sources []net.IP) (results []report.Result, err error) {
	rounds, err := o.rounds(ctx, all, sources)
	results = collect(all, rounds, workload)
	if err != nil {
		return results, err
	}
	for i, r := range all {
		out, err := load.Open(ctx, load.OpenConfig{
			Target: r.target, Rate: o.Rate, Duration: o.Duration / 2, Conns: o.Clients, Sources: sources,
		})
		if out != nil && out.Total() > 0 {
			latencies(&results[i], out)
		}
		if err != nil {
			return results, fmt.Errorf("%s: %w", r.server.Name, err)
		}
	}
	return results, nil
}

// rounds runs a closed loop against each server, in rounds that take turns; each
// begins with another server. They are valid beside an error, nil if there are
// none.
func (o Options) rounds(ctx context.Context, all []*running, sources []net.IP) ([]round, error) {
	loops := make([]*load.Closed, len(all))
	defer func() {
		for _, l := range loops {
			if l != nil {
				l.Close()
			}
		}
	}()
	for i, r := range all {
		var err error
		if loops[i], err = load.DialClosed(ctx, r.target, o.Clients, sources); err == nil {
			_, err = loops[i].Run(ctx, o.Requests) // caches, connections, and the client's way over its limit
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.server.Name, err)
		}
	}
	rounds := make([]round, len(all))
	for n := range o.Rounds {
		for i := range all {
			i = (i + n) % len(all)
			if err := rounds[i].measure(ctx, all[i], loops[i], o.Requests); err != nil {
				return rounds, fmt.Errorf("%s: %w", all[i].server.Name, err)
			}
		}
	}
	return rounds, nil
}

func collect(all []*running, rounds []round, workload string) (results []report.Result) {
	for i, m := range rounds {
		if len(m.perSecond) > 0 {
			results = append(results, m.result(all[i].result(workload)))
		}
	}
	return results
}

// round collects the rounds of one server.
type round struct {
	perSecond, micros []float64
	requests, denied  int64
}

func (m *round) measure(ctx context.Context, r *running, l *load.Closed, n int) error {
	var counts load.Counts
	took, _, cpu, err := r.child.Cost(func() (err error) {
		counts, err = l.Run(ctx, n)
		return err
	})
	if err != nil {
		return err
	}
	done := float64(counts.Total())
	m.perSecond = append(m.perSecond, done/took.Seconds())
	m.micros = append(m.micros, cpu.Seconds()*1e6/done)
	m.requests += counts.Total()
	m.denied += counts.Denied()
	return nil
}

func (m round) result(res report.Result) report.Result {
	res.Requests, res.Denied = m.requests, new(float64(m.denied)/float64(m.requests))
	res.PerSecond, res.CPUMicros = new(report.Median(m.perSecond)), new(report.Median(m.micros))
	return res
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
	res.LatencyMicros = report.Latencies(out.Latency)
	res.Series = map[string][][2]float64{
		"latency_us":          distribution(out.Latency),
		"latency_omission_us": distribution(out.Service),
	}
	if out.Failed > 0 || out.Unsent > 0 {
		res.Error = fmt.Sprintf("%d requests failed (%v), %d could not be sent in time", out.Failed, out.Failure, out.Unsent)
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
