package inproc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/fastlimit/fastlimit/bench/oracle"
)

// Each limiter is measured in a process of its own, so that its memory, its
// garbage and its resident set are its own. The child is the same program
// again, started with this command, a job and the parent's arguments.
const childCommand = "measure-one"

// job is what a child is asked to do.
type job struct {
	Contender string
	Rule      oracle.Rule
	Speed     *speedJob `json:",omitempty"`
	Flood     *floodJob `json:",omitempty"`
}

// answer is one line of what a child answers.
type answer struct {
	Error string       `json:",omitempty"`
	Round *round       `json:",omitempty"` // of a speed job; the first tells that it is ready
	Flood *floodReport `json:",omitempty"`
}

// RunChild does a child's part and exits, if this process is a child of
// [Local] or [Memory]; else it returns at once. A program that calls these must
// call it first in main, with the contenders that it measures beside the
// defaults, given the arguments that the parent was started with; nil is none.
func RunChild(contenders func(args []string) []Contender) {
	if len(os.Args) < 3 || os.Args[1] != childCommand {
		return
	}
	var all []Contender
	if contenders != nil {
		all = contenders(os.Args[3:])
	}
	out := json.NewEncoder(os.Stdout)
	if err := runJob(os.Args[2], all, os.Stdin, out); err != nil {
		_ = out.Encode(answer{Error: err.Error()}) // the parent is gone
		os.Exit(1)
	}
	os.Exit(0)
}

// runJob finds the contender by name: functions do not fit into JSON.
func runJob(text string, contenders []Contender, in io.Reader, out *json.Encoder) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return fmt.Errorf("bench: %s: %w", childCommand, err)
	}
	for _, c := range slices.Concat(contenders, []Contender{Fastlimit(), FastlimitClock(), Reference(), noLimiter()}, Algorithms()) {
		if c.Name != j.Contender {
			continue
		}
		switch {
		case j.Flood != nil:
			return j.Flood.run(c, j.Rule, out)
		case j.Speed != nil:
			return j.Speed.run(c, j.Rule, in, out)
		}
		return fmt.Errorf("bench: %s: no job in %s", childCommand, text)
	}
	return fmt.Errorf("bench: no contender %q in this program: RunChild must know those that are measured", j.Contender)
}

// child is a running job.
type child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	stderr strings.Builder // complete after Wait
	ended  bool            // its output has ended
}

// startChild starts a job with this program's own arguments and more, so that the child
// builds the same contenders. It writes what it found to stdout, a line for each answer, and
// reads from stdin when to go on.
func startChild(ctx context.Context, j job, more ...string) (*child, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("bench: cannot start itself: %w", err)
	}
	c := &child{cmd: exec.CommandContext(ctx, self, slices.Concat([]string{childCommand, string(text)}, os.Args[1:], more)...)}
	c.cmd.Stderr = &c.stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewScanner(stdout)
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("bench: cannot start itself: %w", err)
	}
	return c, nil
}

// next reads one line of the answer.
func (c *child) next() (answer, error) {
	var r answer
	if !c.out.Scan() {
		c.ended = c.out.Err() == nil
		c.stop() // so that stderr is complete
		err := errors.Join(c.out.Err(), errors.New("bench: the measuring process ended early"))
		if text := strings.TrimSpace(c.stderr.String()); text != "" {
			err = fmt.Errorf("%w: %.500s", err, text)
		}
		return r, err
	}
	if err := json.Unmarshal(c.out.Bytes(), &r); err != nil {
		return r, fmt.Errorf("bench: the measuring process answered %q: does main call inproc.RunChild first?", c.out.Text())
	}
	if r.Error != "" {
		return r, errors.New(r.Error)
	}
	return r, nil
}

// stop ends the job and waits. A child whose output has ended is exiting by
// itself: killing it could cut off what it writes to stderr.
func (c *child) stop() {
	c.in.Close()
	if !c.ended {
		_ = c.cmd.Process.Kill() // it may be in the middle of a flood
	}
	_ = c.cmd.Wait() // an error the second time
}
