package main

import (
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/fastlimit/fastlimit/internal/cli"
)

func TestHelpCommand(t *testing.T) {
	t.Parallel()
	_, whole, _ := command(t, nil, "--help")
	_, replay, _ := command(t, nil, "replay", "--help")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"help"}, whole},
		{[]string{"help", "--help"}, whole},
		{[]string{"help", "replay"}, replay},
	} {
		if code, stdout, stderr := command(t, nil, tt.args...); code != 0 || stdout != tt.want || stderr != "" {
			t.Errorf("%v: exit %d, %q, %q", tt.args, code, stdout, stderr)
		}
	}
	if code, stdout, stderr := command(t, nil, "help", "srve"); code != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, `did you mean "serve"?`) {
		t.Errorf("help srve: exit %d, %q, %q", code, stdout, stderr)
	}
	// A flag that does nothing is none.
	if strings.Contains(whole, "ot supported") {
		t.Error(whole)
	}
	if _, serve, _ := command(t, nil, "serve", "--help"); strings.Contains(serve, "ot supported") {
		t.Error(serve)
	}
}

func TestVersionFlag(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := command(t, nil, "--version")
	if code != 0 || !strings.HasPrefix(stdout, "fastlimit ") || !strings.Contains(stdout, runtime.Version()) || stderr != "" {
		t.Errorf("exit %d: %q %q", code, stdout, stderr)
	}
}

// A flag that is empty or there twice is refused, not ignored: the default
// configuration must not start where a file was meant.
func TestFlagsThatWouldBeIgnored(t *testing.T) {
	t.Parallel()
	good := writeFile(t, "good.yaml", "rules: [{name: a, rate: 100/s}]\n")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"serve", "-c", ""}, "-c (--config) is empty; give it a value, or leave it out"},
		{[]string{"serve", "--config="}, "-c (--config) is empty"},
		{[]string{"validate", "-c", ""}, "-c (--config) is empty"},
		{[]string{"replay", "-c", "", "-"}, "-c (--config) is empty"},
		{[]string{"serve", "-c", good, "-c", good}, "-c (--config) is given twice; remove one of the two"},
		{[]string{"serve", "-c", good, "--config", good}, "-c (--config) is given twice"},
		{[]string{"validate", "-c", good, "-c", good}, "-c (--config) is given twice"},
		{[]string{"replay", "-c", good, "-c", good, "-"}, "-c (--config) is given twice"},
		{[]string{"serve", "--listen", ""}, "--listen is empty"},
		{[]string{"serve", "--redis", ""}, "--redis is empty"},
		{[]string{"serve", "--listen", "127.0.0.1:1", "--listen", "127.0.0.1:2"}, "--listen is given twice"},
		{[]string{"top", "-n", "1", "-n", "2"}, "-n (--n) is given twice"},
	} {
		code, stdout, stderr := command(t, nil, tt.args...)
		if code != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, tt.want) {
			t.Errorf("%v: exit %d, %q, %q; want %q", tt.args, code, stdout, stderr, tt.want)
		}
	}
}

func TestConfigurationOnStdin(t *testing.T) {
	t.Parallel()
	const text = "rules: [{name: piped, rate: 100/s}]\n"
	code, stdout, stderr := command(t, strings.NewReader(text), "validate", "-c", "-")
	if code != 0 || !strings.Contains(stdout, "piped") || stderr != "" {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
	code, _, stderr = command(t, strings.NewReader("rules: [{name: a, rate: fast}]"), "serve", "-c", "-")
	if code != cli.ExitFailure || !strings.HasPrefix(stderr, "<stdin>:1:25: rules[0].rate: ") {
		t.Errorf("exit %d, %q", code, stderr)
	}
	code, _, stderr = command(t, strings.NewReader(text), "replay", "-c", "-", "-")
	if code != cli.ExitUsage || !strings.Contains(stderr, "-c - and the log - both read stdin") {
		t.Errorf("exit %d, %q", code, stderr)
	}
}

func TestConfigurationInAPipe(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"serve", "-c", fifo}, {"validate", "-c", fifo}} {
		if code, _, stderr := command(t, nil, args...); code != cli.ExitFailure || !strings.Contains(stderr, fifo+": is a pipe that nothing writes to") {
			t.Errorf("%v: exit %d, %q", args, code, stderr)
		}
	}
}
