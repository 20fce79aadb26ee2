// Command httpcost tells what a decision of fastlimit costs over HTTP: the CPU
// time of `fastlimit serve` for each request, against that of a bare fasthttp
// handler which gives the same answer.
//
// Both servers have the same fasthttp settings, run on the same core and get
// the same load from another one: keep-alive connections in a closed loop. They
// are measured in many short alternating pairs, since a machine's speed drifts
// by more than the difference; the median of the ratio within pairs is what
// counts. The bytes of the bare server's denial are those of a real one.
//
//	go build -o bin/fastlimit ./cmd/fastlimit
//	go run ./bench/httpcost -fastlimit bin/fastlimit
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"syscall"

	"github.com/fastlimit/fastlimit/bench/load"
	"github.com/fastlimit/fastlimit/bench/proc"
	"github.com/fastlimit/fastlimit/bench/report"
)

type options struct {
	fastlimit string
	out       string
	pairs     int
	requests  int
	conns     int
	timeouts  bool
}

func main() {
	var o options
	bare := flag.String("bare", "", "serve this answer (a file) on the address in the argument; used by httpcost itself")
	flag.StringVar(&o.fastlimit, "fastlimit", "bin/fastlimit", "the binary to measure")
	flag.StringVar(&o.out, "out", "", "write a report in JSON there too")
	flag.IntVar(&o.pairs, "pairs", 200, "pairs of runs for each answer")
	flag.IntVar(&o.requests, "requests", 5000, "requests in a run")
	flag.IntVar(&o.conns, "conns", 32, "connections, each from its own loopback address")
	flag.BoolVar(&o.timeouts, "bare-timeouts", true, "the bare server ends slow and idle connections too; without that it spends 5 % less")
	flag.Parse()
	if *bare != "" {
		fail(serveBare(*bare, flag.Arg(0), o.timeouts))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fail(run(ctx, o))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "httpcost:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	cores, err := proc.Cores()
	if err != nil {
		return err
	}
	if len(cores) < 2 {
		return fmt.Errorf("%d core: want 2, one for the server and one for the load", len(cores))
	}
	if err := proc.PinSelf(cores[1:2]); err != nil {
		return err
	}
	r := report.Report{Environment: report.CurrentEnvironment(os.Args[1:])}
	for _, a := range []struct {
		name  string
		limit []string
		want  int
	}{
		{"allow", []string{"--rate", "1000000/s", "--burst", "1000000"}, 200},
		{"deny", []string{"--rate", "1/h", "--burst", "20"}, 429},
	} {
		p, err := startPair(ctx, o, cores[0], a.limit, a.want)
		if err != nil {
			return err
		}
		ratios, err := p.compare(ctx, o)
		p.stop()
		if len(ratios) > 0 {
			ratios.print(a.name)
			r.Results = append(r.Results, ratios.results(a.name)...)
		}
		if err != nil {
			return errors.Join(err, write(o.out, r))
		}
	}
	return write(o.out, r)
}

func write(name string, r report.Report) error {
	if name == "" || len(r.Results) == 0 {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(r.WriteJSON(f), f.Close())
}

// costs are the CPU times of a request in ns, of the pairs measured.
type costs []struct{ fastlimit, bare float64 }

func (c costs) columns() (ratio, fast, bare []float64) {
	for _, p := range c {
		ratio = append(ratio, p.fastlimit/p.bare)
		fast = append(fast, p.fastlimit/1e3)
		bare = append(bare, p.bare/1e3)
	}
	return ratio, fast, bare
}

func (c costs) print(answer string) {
	_, fast, bare := c.columns()
	fmt.Printf("%-5s fastlimit %.2f µs  bare %.2f µs  %s\n", answer, report.Quantile(fast, 0.5), report.Quantile(bare, 0.5), c.verdict())
}

// verdict gives the 95 % interval of the median too: the order statistics
// 1.96·√n/2 ranks to both sides of it.
func (c costs) verdict() string {
	ratio, _, _ := c.columns()
	off := 0.98 / math.Sqrt(float64(len(c)))
	return fmt.Sprintf("ratio %.3f (95 %% of medians within %.3f to %.3f; quartiles %.3f to %.3f) of %d pairs",
		report.Quantile(ratio, 0.5), report.Quantile(ratio, max(0, 0.5-off)), report.Quantile(ratio, min(1, 0.5+off)),
		report.Quantile(ratio, 0.25), report.Quantile(ratio, 0.75), len(c))
}

func (c costs) results(answer string) []report.Result {
	_, fast, bare := c.columns()
	one := func(limiter string, v []float64, setup, verdict string) report.Result {
		micros := report.Quantile(v, 0.5)
		return report.Result{
			Group: "http", Workload: "CPU beside bare fasthttp: " + answer, Limiter: limiter,
			Setup: setup, Cores: 1, CPUMicros: &micros, Verdict: verdict,
		}
	}
	return []report.Result{
		one("fastlimit", fast, "fastlimit serve, defaults", c.verdict()),
		one("bare fasthttp", bare, "the same answer by a handler that decides nothing, same settings of fasthttp", ""),
	}
}

// measure runs the load once and returns the CPU time of a request in ns.
func measure(ctx context.Context, child *proc.Child, l *load.Closed, n, want int) (float64, error) {
	before, err := child.CPU()
	if err != nil {
		return 0, err
	}
	counts, err := l.Run(ctx, n)
	if err != nil {
		return 0, err
	}
	after, err := child.CPU()
	if err != nil {
		return 0, err
	}
	// A few of the denied are admitted as time goes by.
	if other := counts.Total() - counts.Status(want); other*100 > counts.Total() {
		return 0, fmt.Errorf("%d of %d answers have another status than %d", other, counts.Total(), want)
	}
	return float64((after - before).Nanoseconds()) / float64(counts.Total()), nil
}
