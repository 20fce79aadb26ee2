package httpbench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/fastlimit/fastlimit/bench/load"
	"github.com/fastlimit/fastlimit/bench/proc"
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

// costAnswers are the two answers that are compared. A few of the denied are
// admitted as time goes by.
var costAnswers = []struct {
	name, rate, burst string
	status            int
}{
	{"allow", "1000000/s", "1000000", 200},
	{"deny", "1/h", "20", 429},
}

// RunCost measures what a decision costs over HTTP: the CPU time of `fastlimit
// serve` for each request, against that of a bare fasthttp server ([Bare]) that
// gives the same answer byte for byte.
//
// Both have the same fasthttp settings, run on the same core and get the same
// load from the other cores. They are measured in many short alternating pairs,
// since a machine's speed drifts by more than the difference; the median of the
// ratio within pairs counts. The results are valid beside an error.
func RunCost(ctx context.Context, o CostOptions) (results []report.Result, err error) {
	err = apart(func(dir string, c cores) error {
		for i, a := range costAnswers {
			admin, err := proc.FreeAddr()
			if err != nil {
				return err
			}
			o.Progress.Tell(i, len(costAnswers), "%s, profiles on http://%s/debug/pprof", a.name, admin)
			fast := Fastlimit(o.Fastlimit)
			fast.args = []string{"serve", "--listen", "{{.Addr}}", "--admin", admin, "--rate", a.rate, "--burst", a.burst}
			home := filepath.Join(dir, a.name)
			if err := os.Mkdir(home, 0o700); err != nil {
				return err
			}
			rounds, err := o.compare(ctx, fast, a.status, home, c)
			results = append(results, costResults(a.name, rounds)...)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return results, err
}

// compare measures fastlimit beside the bare server, which learns its answer
// from it.
func (o CostOptions) compare(ctx context.Context, fast Server, status int, dir string, c cores) (rounds []round, err error) {
	var both []*running
	defer func() { stopAll(both) }()
	at := site{rule: generousRule, dir: dir, cores: c.server, status: status}
	for _, s := range []Server{fast, BareServer(o.BareTimeouts)} {
		r, err := s.run(ctx, at)
		if err != nil {
			return nil, err
		}
		both = append(both, r)
		at.upstream = r.target.Addr()
	}
	s := shape{conns: o.Conns, head: "host"}
	rounds, err = Options{Rounds: o.Pairs, Requests: o.Requests}.rounds(ctx, both, s.load(o.Conns), c.load)
	for i, m := range rounds {
		other := m.denied
		if load.Denial(status) {
			other = m.requests - m.denied
		}
		if other*100 > m.requests {
			err = errors.Join(err, fmt.Errorf("bench: %s: %d of %d answers have another status than %d", both[i].server.Name, other, m.requests, status))
		}
	}
	return rounds, err
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

// costResults are the CPU times of a request, of fastlimit and of the bare server.
func costResults(answer string, rounds []round) (results []report.Result) {
	if len(rounds) < 2 || len(rounds[1].micros) == 0 {
		return nil // not one pair
	}
	for i, name := range []string{"fastlimit", "bare fasthttp"} {
		results = append(results, report.Result{
			Group: "http", Workload: "CPU beside bare fasthttp: " + answer, Limiter: name,
			Cores: 1, CPUMicros: new(report.Median(rounds[i].micros)),
		})
	}
	results[0].Setup, results[0].Verdict = "fastlimit serve, defaults", ratios(rounds[0].micros, rounds[1].micros)
	results[1].Setup = "the same answer by a handler that decides nothing, same settings of fasthttp"
	return results
}
