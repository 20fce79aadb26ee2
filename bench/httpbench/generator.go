package httpbench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/fastlimit/fastlimit/bench/load"
	"github.com/fastlimit/fastlimit/bench/proc"
)

// Generator is a process of its own that sends a load: nothing else runs in it that
// could delay a request, and no collector, since it hardly allocates. It is a command
// that this package starts, named [GeneratorCommand].
type Generator struct {
	Load   string `arg:"" help:"A load.SpinConfig in JSON."`
	Server int    `arg:"" help:"Process whose CPU time to take over the measured time."`
}

// The commands of this program that this package starts in processes of their own.
const (
	GeneratorCommand = "http-generator"
	BareCommand      = "httpcost-bare"
	AppCommand       = "proxy-app"
	BareProxyCommand = "proxy-bare"
)

// generated is what a generator prints: a load's outcome, and what the server used
// meanwhile.
type generated struct {
	load.SpinOutcome

	CPU time.Duration
}

// Run implements the command.
func (g *Generator) Run() error {
	debug.SetGCPercent(-1)
	var c load.SpinConfig
	if err := json.Unmarshal([]byte(g.Load), &c); err != nil {
		return err
	}
	var before, after time.Duration
	var errs [2]error
	c.Begin = func() { before, errs[0] = proc.CPU(g.Server) }
	c.End = func() { after, errs[1] = proc.CPU(g.Server) }
	c.Halt = func(stop bool) error { return proc.Halt(g.Server, stop) }
	out, err := load.Spin(context.Background(), c)
	if err := errors.Join(err, errs[0], errs[1]); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(generated{*out, after - before})
}

// generate sends a load to a server from a process on the given cores. With a tracer
// the process is started by that command.
func generate(ctx context.Context, r *running, c load.SpinConfig, cores []int, tracer ...string) (g generated, err error) {
	c.Addr = r.target.Addr()
	text, err := json.Marshal(c)
	if err != nil {
		return g, err
	}
	self, err := os.Executable()
	if err != nil {
		return g, err
	}
	if c.Queue {
		// A generator that is interrupted leaves the server halted, which then cannot end.
		defer func() { err = errors.Join(err, proc.Halt(r.child.PID(), false)) }()
	}
	command := slices.Concat(tracer, []string{self, GeneratorCommand, string(text), strconv.Itoa(r.child.PID())})
	var out bytes.Buffer
	child, err := proc.Start(ctx, proc.Config{Path: command[0], Args: command[1:], Cores: cores, Stdout: &out})
	if err != nil {
		return g, err
	}
	if err := child.Wait(ctx); err != nil {
		return g, fmt.Errorf("%s: %w", r.server.Name, err)
	}
	if err := json.Unmarshal(out.Bytes(), &g); err != nil {
		return g, fmt.Errorf("bench: the generator printed %.100q: %w", out.String(), err)
	}
	return g, nil
}
