package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/product"
)

// binary is the command under test, built once as users build it.
var binary string

// apart sends a load, if that is what this process is for.
var apart = func() bool { return false }

// stateEnv tells the test binary to be a process that keeps a state file in a directory,
// under load, until it is killed: see keepStateIn, which not all systems have.
const stateEnv = "FASTLIMIT_TEST_STATE"

var keepStateIn func(dir string)

func TestMain(m *testing.M) {
	if apart() {
		return
	}
	if what := os.Getenv(holdEnv); what != "" {
		hold(what) // this process is one of those that hold connections
		return
	}
	if dir := os.Getenv(stateEnv); dir != "" {
		keepStateIn(dir)
		return
	}
	os.Exit(product.Run(m, &binary))
}

// severalPrograms skips tests of nodes, of services that restart and of thousands of connections,
// most of this package's work, where only short ones are asked for: by make check.
func severalPrograms(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("several programs for several seconds: make test runs it")
	}
}

// command runs a command line to its end: within this process, which spares the start of
// another one, except for what serves, as that sets limits of the whole process.
func command(t *testing.T, stdin io.Reader, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	if len(args) > 0 && (args[0] == "serve" || args[0] == "rls") {
		return execute(t, stdin, args...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	if stdin == nil {
		stdin = strings.NewReader("")
	}
	var out, errs bytes.Buffer
	code = run(ctx, args, &system{stdin: stdin, stdout: &out, stderr: &errs, lookupEnv: os.LookupEnv})
	return code, out.String(), errs.String()
}

// execute runs the binary to its end.
func execute(t *testing.T, stdin io.Reader, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// process is a running "fastlimit serve".
type process struct {
	t             *testing.T
	cmd           *exec.Cmd
	listen, admin string
	lines         chan string // log lines after the first of them was read
	done          chan struct{}

	mu  sync.Mutex
	log strings.Builder // guarded by mu
}

var startLine = regexp.MustCompile(`msg="fastlimit is serving" listen=(\S+) admin=(\S+) `)

// serve starts the binary on free ports and reads these from its log.
func serve(t *testing.T, args ...string) *process {
	t.Helper()
	return start(t, exec.Command(binary, append([]string{"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args...)...))
}

// start runs a command that serves.
func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := launch(t, cmd)
	addrs := startLine.FindStringSubmatch(p.waitLog("fastlimit is serving"))
	if addrs == nil {
		t.Fatal("no addresses in the start line")
	}
	p.listen, p.admin = addrs[1], addrs[2]
	return p
}

// launch runs a command whose log is read, until the test ends.
func launch(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, lines: make(chan string, 1000), done: make(chan struct{})}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.read(stderr)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.done
		_ = p.cmd.Wait()
		if t.Failed() {
			p.mu.Lock()
			defer p.mu.Unlock()
			t.Logf("log of %v:\n%s", cmd.Args, p.log.String())
		}
	})
	return p
}

func (p *process) read(stderr io.Reader) {
	defer close(p.done)
	defer close(p.lines)
	for s := bufio.NewScanner(stderr); s.Scan(); {
		p.mu.Lock()
		fmt.Fprintln(&p.log, s.Text())
		p.mu.Unlock()
		select {
		case p.lines <- s.Text():
		default: // nobody reads so many
		}
	}
}

// hang bounds waits that only a bug makes long, on a busy machine too.
const hang = 4 * time.Minute

// waitLog returns the next log line that holds text.
func (p *process) waitLog(text string) string {
	p.t.Helper()
	timeout := time.After(hang)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("the process ended without logging %q", text)
			}
			if strings.Contains(line, text) {
				return line
			}
		case <-timeout:
			p.t.Fatalf("no log line with %q", text)
		}
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// wait waits for the end of the process and returns its exit code.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(hang):
		p.t.Fatal("the process does not end")
	}
	_ = p.cmd.Wait() // the code tells
	return p.cmd.ProcessState.ExitCode()
}
