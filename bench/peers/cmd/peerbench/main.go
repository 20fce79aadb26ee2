// Command peerbench measures fastlimit beside the limiters that people would
// otherwise pick, in one run: how fast they decide, how right, and in how much
// memory. It writes the same JSON as `fastlimit bench -o json`; reports of
// several runs are merged by joining their results.
//
//	go run ./cmd/peerbench -redis redis://127.0.0.1:6379/9 -keys 1e6,1e7 >peers.json
//
// Interrupted, it writes what it has.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bench"
	"github.com/fastlimit/fastlimit/bench/peers"
	"github.com/fastlimit/fastlimit/bench/redisbench"
)

type flags struct {
	groups, only, keys, redis string
	rounds, requests          int
	duration, patience        time.Duration
	capGiB                    float64
	seed                      uint64
}

func main() {
	var f flags
	flag.StringVar(&f.groups, "groups", "local,accuracy,memory", "what to measure")
	flag.StringVar(&f.only, "only", "", "limiters to measure, by name, separated by commas; default all")
	flag.StringVar(&f.keys, "keys", "1e6,1e7", "sizes of the floods of the memory group")
	flag.Float64Var(&f.capGiB, "cap", 0, "resident memory in GiB at which a limiter is stopped; default three quarters of what is free")
	flag.DurationVar(&f.patience, "patience", 0, "time after which a limiter is stopped in a flood; default 3m")
	flag.StringVar(&f.redis, "redis", "", "URL of a Redis for redis_rate and fastlimit with it, whose database is flushed; default: both are left out")
	flag.IntVar(&f.rounds, "rounds", 0, "rounds of the local group; default 11")
	flag.IntVar(&f.requests, "requests", 0, "requests of each accuracy workload; default 10^6")
	flag.DurationVar(&f.duration, "duration", 0, "time that each accuracy workload spans; default 6s")
	flag.Uint64Var(&f.seed, "seed", 1, "of all random choices")
	flag.Parse()

	all := contenders(f)
	bench.RunChild(all...)
	if err := run(f, all); err != nil {
		fmt.Fprintln(os.Stderr, "peerbench:", err)
		os.Exit(1)
	}
}

func run(f flags, all []bench.Contender) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	report := bench.Report{Environment: bench.CurrentEnvironment(os.Args[1:])}
	err := measure(ctx, f, all, &report)
	if len(report.Results) > 0 {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		err = errors.Join(err, out.Encode(report))
	}
	return err
}

func contenders(f flags) []bench.Contender {
	all := append([]bench.Contender{bench.Fastlimit(), bench.FastlimitClock(), bench.Reference()}, peers.InProcess()...)
	if f.redis != "" {
		all = append(all, peers.RedisRate(f.redis), redisbench.Contender(f.redis))
	}
	if f.only == "" {
		return all
	}
	names := strings.Split(f.only, ",")
	return slices.DeleteFunc(all, func(c bench.Contender) bool { return !slices.Contains(names, c.Name) })
}

// measure runs the groups and keeps what they measured, also when one fails.
func measure(ctx context.Context, f flags, all []bench.Contender, report *bench.Report) error {
	if len(all) == 0 {
		return fmt.Errorf("-only %q names none of the limiters", f.only)
	}
	keys, err := parseKeys(f.keys)
	if err != nil {
		return err
	}
	// Reading the clock changes how fast fastlimit is, not how right: in real
	// time the oracle knows less.
	clock, shared := bench.FastlimitClock().Name, redisbench.Contender("").Name
	runs := map[string]func() ([]bench.Result, error){
		"local": func() ([]bench.Result, error) {
			return bench.Local(ctx, bench.LocalOptions{Options: options(f, without(all, shared)), Rounds: f.rounds})
		},
		"accuracy": func() ([]bench.Result, error) {
			return bench.Accuracy(ctx, bench.AccuracyOptions{Options: options(f, without(all, clock)), Requests: f.requests, Duration: f.duration})
		},
		"memory": func() ([]bench.Result, error) {
			// What Redis holds is the memory of another process.
			here := without(all, clock, shared, peers.RedisRate("").Name)
			return bench.Memory(ctx, bench.MemoryOptions{
				Options: options(f, here), Keys: keys, Cap: int64(f.capGiB * (1 << 30)), Patience: f.patience,
			})
		},
	}
	groups := strings.Split(f.groups, ",")
	for _, g := range groups {
		if runs[g] == nil {
			return fmt.Errorf("-groups %q: want local, accuracy and memory, separated by commas", f.groups)
		}
	}
	if err := reachable(all); err != nil {
		return err
	}
	for _, g := range groups {
		results, err := runs[g]()
		report.Results = append(report.Results, results...)
		if err != nil {
			return fmt.Errorf("%s: %w", g, err)
		}
	}
	return nil
}

// reachable reports whether the servers answer that some limiters need.
func reachable(all []bench.Contender) error {
	for _, c := range all {
		if !c.Remote {
			continue
		}
		l, err := c.New(bench.Rule{Rate: fastlimit.Rate{N: 1, Per: time.Second}, Burst: 1})
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		if closer, ok := l.(io.Closer); ok {
			if err := closer.Close(); err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
		}
	}
	return nil
}

func without(all []bench.Contender, names ...string) []bench.Contender {
	return slices.DeleteFunc(slices.Clone(all), func(c bench.Contender) bool { return slices.Contains(names, c.Name) })
}

func options(f flags, all []bench.Contender) bench.Options {
	st, err := os.Stderr.Stat()
	if err != nil || st.Mode()&os.ModeCharDevice == 0 {
		return bench.Options{Contenders: all, Seed: f.seed} // nobody looks on
	}
	return bench.Options{Contenders: all, Seed: f.seed, Progress: func(done, total int, what string) {
		fmt.Fprintf(os.Stderr, "\r\x1b[K%d/%d %s", done, total, what)
		if done == total {
			fmt.Fprintln(os.Stderr)
		}
	}}
}

// parseKeys reads numbers like 10000000 and 1e7.
func parseKeys(list string) ([]int64, error) {
	var keys []int64
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || n != float64(int64(n)) {
			return nil, fmt.Errorf("-keys %q: want whole numbers like 1e6, separated by commas", list)
		}
		keys = append(keys, int64(n))
	}
	return keys, nil
}
