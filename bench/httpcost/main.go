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
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/fastlimit/fastlimit/bench/load"
	"github.com/fastlimit/fastlimit/bench/proc"
)

type options struct {
	fastlimit string
	pairs     int
	requests  int
	conns     int
}

func main() {
	var o options
	bare := flag.String("bare", "", "serve this answer (a file) on the address in the argument; used by httpcost itself")
	flag.StringVar(&o.fastlimit, "fastlimit", "bin/fastlimit", "the binary to measure")
	flag.IntVar(&o.pairs, "pairs", 40, "pairs of runs for each answer")
	flag.IntVar(&o.requests, "requests", 25000, "requests in a run")
	flag.IntVar(&o.conns, "conns", 32, "connections, each from its own loopback address")
	flag.Parse()
	if *bare != "" {
		fail(serveBare(*bare, flag.Arg(0)))
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
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// costs are the CPU times of a request in ns, of the pairs measured.
type costs []struct{ fastlimit, bare float64 }

func (c costs) print(answer string) {
	var ratio, fast, bare []float64
	for _, p := range c {
		ratio = append(ratio, p.fastlimit/p.bare)
		fast = append(fast, p.fastlimit/1e3)
		bare = append(bare, p.bare/1e3)
	}
	fmt.Printf("%-6s ratio %.4f (quartiles %.4f to %.4f)  fastlimit %.2f us  bare %.2f us  %d pairs\n", answer,
		quantile(ratio, 0.5), quantile(ratio, 0.25), quantile(ratio, 0.75), quantile(fast, 0.5), quantile(bare, 0.5), len(c))
}

func quantile(v []float64, q float64) float64 {
	v = slices.Sorted(slices.Values(v))
	at := q * float64(len(v)-1)
	i := min(int(at), len(v)-2)
	if i < 0 {
		return v[0]
	}
	return v[i] + (at-float64(i))*(v[i+1]-v[i])
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
