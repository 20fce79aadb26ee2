// Command peerbench measures fastlimit beside the limiters that people would
// otherwise pick, in one run: how fast they decide, how right, and in how much
// memory. It writes the same JSON as `go run ./bench … -o json`; `go run ./bench
// report` merges those of several runs.
//
//	go run ./cmd/peerbench -redis redis://127.0.0.1:6379/9 -keys 1e6,1e7 >peers.json
//
// Interrupted, it writes what it has.
package main

import (
	"context"
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
	"github.com/fastlimit/fastlimit/bench/inproc"
	"github.com/fastlimit/fastlimit/bench/oracle"
	"github.com/fastlimit/fastlimit/bench/peers"
	"github.com/fastlimit/fastlimit/bench/redisbench"
	"github.com/fastlimit/fastlimit/bench/report"
)

type flags struct {
	groups, only, keys, redis string
	rounds, requests          int
	duration, patience        time.Duration
	capGiB                    float64
	seed                      uint64
}

func main() {
	inproc.RunChild(func(args []string) []inproc.Contender { return contenders(parse(args)) })
	f := parse(os.Args[1:])
	if err := run(f, contenders(f)); err != nil {
		fmt.Fprintln(os.Stderr, "peerbench:", err)
		os.Exit(1)
	}
}

// parse reads the flags, and ends the process where it cannot.
func parse(args []string) (f flags) {
	set := flag.NewFlagSet("peerbench", flag.ExitOnError)
	set.StringVar(&f.groups, "groups", "local,accuracy,memory", "what to measure")
	set.StringVar(&f.only, "only", "", "limiters to measure, by name, separated by commas; default all")
	set.StringVar(&f.keys, "keys", "1e6,1e7", "sizes of the floods of the memory group")
	set.Float64Var(&f.capGiB, "cap", 0, "resident memory in GiB at which a limiter is stopped; default three quarters of what is free")
	set.DurationVar(&f.patience, "patience", 0, "time after which a limiter is stopped in a flood; default 3m")
	set.StringVar(&f.redis, "redis", "", "URL of a Redis for redis_rate and fastlimit with it, whose database is flushed; default: both are left out")
	set.IntVar(&f.rounds, "rounds", 0, "rounds of the local group; default 11")
	set.IntVar(&f.requests, "requests", 0, "requests of each accuracy workload; default 10^6")
	set.DurationVar(&f.duration, "duration", 0, "time that each accuracy workload spans; default 6s")
	set.Uint64Var(&f.seed, "seed", 1, "random seed")
	_ = set.Parse(args) // it exits
	return f
}

func run(f flags, all []inproc.Contender) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r := report.Report{Environment: report.CurrentEnvironment(os.Args[1:])}
	err := measure(ctx, f, all, &r)
	if len(r.Results) > 0 {
		err = errors.Join(err, r.WriteJSON(os.Stdout))
	}
	return err
}

func contenders(f flags) []inproc.Contender {
	all := append([]inproc.Contender{inproc.Fastlimit(), inproc.FastlimitClock(), inproc.Reference()}, peers.InProcess()...)
	if f.redis != "" {
		all = append(all, peers.RedisRate(f.redis), redisbench.Contender(f.redis))
	}
	if f.only == "" {
		return all
	}
	names := strings.Split(f.only, ",")
	return slices.DeleteFunc(all, func(c inproc.Contender) bool { return !slices.Contains(names, c.Name) })
}

// measure runs the groups and keeps what they measured, also when one fails.
func measure(ctx context.Context, f flags, all []inproc.Contender, r *report.Report) error {
	if len(all) == 0 {
		return fmt.Errorf("-only %q names none of the limiters", f.only)
	}
	keys, err := parseKeys(f.keys)
	if err != nil {
		return err
	}
	// Reading the clock changes how fast fastlimit is, not how right: in real
	// time the oracle knows less.
	clock, shared := inproc.FastlimitClock().Name, redisbench.Contender("").Name
	runs := map[string]func() ([]report.Result, error){
		"local": func() ([]report.Result, error) {
			return inproc.Local(ctx, inproc.LocalOptions{Options: options(f, without(all, shared)), Rounds: f.rounds})
		},
		"accuracy": func() ([]report.Result, error) {
			return inproc.Accuracy(ctx, inproc.AccuracyOptions{Options: options(f, without(all, clock)), Requests: f.requests, Duration: f.duration})
		},
		"memory": func() ([]report.Result, error) {
			// What Redis holds is the memory of another process.
			here := without(all, clock, shared, peers.RedisRate("").Name)
			return inproc.Memory(ctx, inproc.MemoryOptions{
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
		r.Results = append(r.Results, results...)
		if err != nil {
			return fmt.Errorf("%s: %w", g, err)
		}
	}
	return nil
}

// reachable reports whether the servers answer that some limiters need.
func reachable(all []inproc.Contender) error {
	for _, c := range all {
		if !c.Remote {
			continue
		}
		l, err := c.New(oracle.Rule{Rate: fastlimit.Rate{N: 1, Per: time.Second}, Burst: 1})
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

func without(all []inproc.Contender, names ...string) []inproc.Contender {
	return slices.DeleteFunc(slices.Clone(all), func(c inproc.Contender) bool { return slices.Contains(names, c.Name) })
}

func options(f flags, all []inproc.Contender) inproc.Options {
	st, err := os.Stderr.Stat()
	if err != nil || st.Mode()&os.ModeCharDevice == 0 {
		return inproc.Options{Contenders: all, Seed: f.seed} // nobody looks on
	}
	return inproc.Options{Contenders: all, Seed: f.seed, Progress: func(done, total int, what string) {
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
