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
	if code, stdout, stderr := command(t, nil, "help", "srve"); code != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, "did you mean serve?") {
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

// A misspelled command, flag or value names the one that was probably meant, and nothing that looks
// different. A flag with one dash is no file of that name: -config would be -c onfig.
func TestMisspelled(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"sevre":                 "unknown command sevre; did you mean serve? see fastlimit --help",
		"-- sevre":              "unknown command sevre; did you mean serve? see fastlimit --help",
		"val x":                 "unknown command val; did you mean validate? see fastlimit --help",
		"override lst":          "unknown command lst; did you mean list? see fastlimit override --help",
		"foo":                   "unknown command foo; see fastlimit --help",
		"v":                     "unknown command v; see fastlimit --help",
		"schema x":              "unexpected argument x; see fastlimit schema --help",
		"serve --lsten :80":     "unknown flag --lsten; did you mean --listen? see fastlimit serve --help",
		"serve --Listen=:80":    "unknown flag --Listen; did you mean --listen? see fastlimit serve --help",
		"serve -c a --adminn x": "unknown flag --adminn; did you mean --admin? see fastlimit serve --help",
		"serve --zzzzz":         "unknown flag --zzzzz; see fastlimit serve --help",
		"serve -q":              "unknown flag -q; see fastlimit serve --help",
		"top --once --sort rat": `--sort must be one of "rate","denied","share","key" but got "rat"; did you mean rate? see fastlimit top --help`,
		"top --sort zzz":        `--sort must be one of "rate","denied","share","key" but got "zzz"; see fastlimit top --help`,
		"serve -config x":       "unknown flag -config; did you mean --config? see fastlimit serve --help",
		"override set -for=1h":  "unknown flag -for; did you mean --for? see fastlimit override set --help",
		"-version":              "unknown flag -version; did you mean --version? see fastlimit --help",
	} {
		code, stdout, stderr := command(t, nil, strings.Fields(args)...)
		if code != cli.ExitUsage || stdout != "" || stderr != "fastlimit: "+want+"\n" {
			t.Errorf("%s: exit %d, %q, %q; want %q", args, code, stdout, stderr, want)
		}
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
