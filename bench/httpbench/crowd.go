package httpbench

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bench/load"
	"github.com/fastlimit/fastlimit/bench/oracle"
	"github.com/fastlimit/fastlimit/bench/report"
)

// crowd is the number of new connections that wait at once: fewer than nginx has room
// for, 511, beyond which the kernel drops them for a second.
const crowd = 500

// bystanderRule is that of servers while a crowd comes: a bystander that uses half of
// it asks often enough for a p99.
var bystanderRule = oracle.Rule{Rate: fastlimit.Rate{N: 200, Per: time.Second}, Burst: 400}

// crowds are the phases in which connections come faster than they are answered.
func (o Options) crowds() (all []phase) {
	s := shape{conns: crowd, head: "host", reconnect: true}
	for _, status := range []int{http.StatusOK, http.StatusTooManyRequests} {
		p := phase{name: fmt.Sprintf("all allowed, %d new connections at once", crowd), rule: generousRule, status: status}
		c := s.load(crowd)
		if status != http.StatusOK {
			p.name, p.rule = fmt.Sprintf("one denied hot key, %d new connections at once", crowd), o.Rule
			c.Sources = 1
		}
		p.run = func(ctx context.Context, all []*running, on cores) ([]report.Result, error) {
			return o.saturated(ctx, all, p, c, on.load)
		}
		all = append(all, p)
	}
	p := phase{name: "bystander during a flood of connections", rule: bystanderRule}
	p.run = func(ctx context.Context, all []*running, on cores) ([]report.Result, error) {
		return o.bystander(ctx, all, p, s.load(1), on.load)
	}
	return append(all, p)
}

// saturated measures the CPU time of a server whose queue is never empty. Making a
// connection costs the generator more than it costs a server, so that a closed loop
// leaves the server's core idle, however many connections it has.
func (o Options) saturated(ctx context.Context, all []*running, p phase, c load.SpinConfig, on []int) (results []report.Result, err error) {
	c.Requests, c.Queue = int64(o.Requests), true
	rounds, err := o.warmRounds(ctx, all, c, on)
	for i, m := range rounds {
		if len(m.perSecond) > 0 {
			m.void = 0 // the server does not wait for the generator
			res := m.result(all[i].result(p.name), p.status)
			res.PerSecond, res.GeneratorIdle = nil, nil // of a server that is halted again and again
			results = append(results, res)
		}
	}
	if err == nil {
		compare(all, results, rounds, "CPU", func(m *round) []float64 { return m.micros })
	}
	return results, err
}

// bystander measures how long a client that keeps its connection and its limit waits
// for answers, while a denied one makes new connections as fast as a core can.
func (o Options) bystander(ctx context.Context, all []*running, p phase, c load.SpinConfig, on []int) (results []report.Result, err error) {
	c.Duration = o.Duration / 2
	c.Probe = &load.SpinProbe{Request: shape{head: "host"}.request(), Rate: bystanderLoad * bystanderRule.Rate.PerSecond()}
	rounds, err := o.warmRounds(ctx, all, c, on)
	for i, m := range rounds {
		if len(m.perSecond) > 0 {
			m.void = 0 // the bystander is looked after between any two events
			res := m.result(all[i].result(p.name), http.StatusTooManyRequests)
			// Of all rounds together p99 would be that of the round in which something else
			// ran on these cores.
			res.LatencyMicros = map[string]float64{"p50": report.Median(m.probeP50), "p99": report.Median(m.probeP99)}
			res.Requests, res.ConformingDenied = m.probes, &m.probeDenied
			results = append(results, res)
		}
	}
	if err != nil {
		return results, err
	}
	compare(all, results, rounds, "the bystander's p50", func(m *round) []float64 { return m.probeP50 })
	compare(all, results, rounds, "its p99", func(m *round) []float64 { return m.probeP99 })
	for i, m := range rounds {
		busy := fmt.Sprintf("the server used %.0f %% of its core", 100*report.Median(m.busy))
		results[i].Verdict = join(results[i].Verdict, busy)
	}
	return results, nil
}
