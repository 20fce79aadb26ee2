package httpbench

import (
	"context"
	"fmt"
	"math"

	"github.com/fastlimit/fastlimit/bench/report"
)

// CostOptions configure [RunCost].
type CostOptions struct {
	Fastlimit    string          `kong:"-"` // the binary to measure
	Pairs        int             `default:"200" help:"Pairs of runs for each answer."`
	Requests     int             `default:"5000" help:"Requests in a run."`
	Conns        int             `default:"32" help:"Connections, each from its own loopback address."`
	BareTimeouts bool            `negatable:"" default:"true" help:"The bare server ends slow and idle connections too; without that it spends 5 % less."`
	Progress     report.Progress `kong:"-"`
}

// RunCost measures what a decision costs over HTTP: the CPU time of `fastlimit
// serve` for each request, against that of a bare fasthttp server ([Bare]) that
// gives the same answer byte for byte.
//
// Both have the same fasthttp settings, run on the same core and get the same
// load from another one. They are measured in many short alternating pairs,
// since a machine's speed drifts by more than the difference; the median of the
// ratio within pairs counts. The results are valid beside an error.
func RunCost(ctx context.Context, o CostOptions) (results []report.Result, err error) {
	results, err = Run(ctx, Options{
		Servers: []Server{Fastlimit(o.Fastlimit), BareServer(o.BareTimeouts)}, Clients: o.Conns, Rounds: o.Pairs, Requests: o.Requests,
		NoFlood: true, noOpen: true, Progress: o.Progress,
	})
	for i := range results {
		results[i].Workload = "CPU beside bare fasthttp: " + results[i].Workload
	}
	return results, err
}

// ratios says what pairs of measurements come to: the median of ours over theirs,
// with its 95 % interval, which lies 1.96·√n/2 ranks to both sides of it.
func ratios(ours, theirs []float64) string {
	all := make([]float64, min(len(ours), len(theirs)))
	for i := range all {
		all[i] = ours[i] / theirs[i]
	}
	off := 0.98 / math.Sqrt(float64(len(all)))
	at := func(q float64) float64 { return report.Quantile(all, min(1, max(0, q))) }
	return fmt.Sprintf("ratio %.3f (95 %% of medians within %.3f to %.3f; quartiles %.3f to %.3f) of %d pairs",
		at(0.5), at(0.5-off), at(0.5+off), at(0.25), at(0.75), len(all))
}
