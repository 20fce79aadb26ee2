package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/fastlimit/fastlimit/internal/cli"
)

// Measuring is another program: the answer is one line that says how to run it.
func TestBenchIsElsewhere(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{"bench": "go run ./bench", "bench http --rounds 3": "go run ./bench http --rounds 3", "bench --help": "go run ./bench --help"} {
		code, stdout, stderr := command(t, nil, strings.Fields(args)...)
		if code != cli.ExitUsage || stdout != "" || !strings.HasSuffix(stderr, ", "+want+"\n") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, %q, %q", args, code, stdout, stderr)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	good := writeFile(t, "good.yaml", "rules:\n  - {name: logins, key: ip, rate: 5/m, burst: 4, match: {path: /login}}\n")
	code, stdout, stderr := command(t, nil, "validate", "-v", "-c", good)
	for _, want := range []string{"memory 64 MiB", "logins", "5/m burst 4", "at once, then 5/m", "\nnote: rule logins: escalate_at is 0"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("stdout lacks %q", want)
		}
	}
	if code != 0 || stderr != "" || t.Failed() {
		t.Errorf("exit %d, stdout\n%s\nstderr %s", code, stdout, stderr)
	}

	if _, quiet, _ := command(t, nil, "validate", "-c", good); strings.Contains(quiet, "note:") || strings.Contains(quiet, "warning:") || !strings.HasPrefix(stdout, quiet) {
		t.Errorf("without -v:\n%s", quiet)
	}

	bad := writeFile(t, "bad.yaml", "rules:\n  - {name: a, key: ip, rate: fast}\n  - {name: a, key: nose, rate: 1/s}\ncluster: {name: x}\n")
	code, stdout, stderr = command(t, nil, "validate", "-c", bad)
	if code != cli.ExitFailure || stdout != "" {
		t.Errorf("exit %d, stdout %q", code, stdout)
	}
	for _, want := range []string{bad + ":2:", bad + ":3:", bad + ":4:10: cluster.bind: missing"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("stderr lacks %q:\n%s", want, stderr)
		}
	}
}

// The schema that is printed is the one that editors are told of.
func TestSchema(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile(filepath.Join("..", "..", "docs", "fastlimit.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := command(t, nil, "schema"); code != 0 || stdout != string(want) || stderr != "" {
		t.Errorf("exit %d, %q, %d bytes, want the %d of docs/fastlimit.schema.json", code, stderr, len(stdout), len(want))
	}
	if code, _, stderr := command(t, nil, "schema", "x"); code != cli.ExitUsage || !strings.Contains(stderr, "unexpected argument") {
		t.Errorf("exit %d, %q", code, stderr)
	}
}

func TestVersionAndHelp(t *testing.T) {
	t.Parallel()
	code, stdout, _ := command(t, nil, "version")
	if code != 0 || !strings.HasPrefix(stdout, "fastlimit ") || !strings.Contains(stdout, "\ncommit ") || !strings.Contains(stdout, runtime.Version()) {
		t.Errorf("exit %d: %s", code, stdout)
	}
	for _, args := range [][]string{{"--help"}, {"serve", "--help"}, {"replay", "-h"}} {
		if code, stdout, stderr := command(t, nil, args...); code != 0 || !strings.HasPrefix(stdout, "Usage: fastlimit") || stderr != "" {
			t.Errorf("%v: exit %d, %q, %q", args, code, stdout, stderr)
		}
	}
	for _, args := range [][]string{nil, {"sevre"}, {"version", "x"}} {
		if code, stdout, stderr := command(t, nil, args...); code != cli.ExitUsage || stdout != "" || !strings.HasPrefix(stderr, "fastlimit: ") {
			t.Errorf("%v: exit %d, %q, %q", args, code, stdout, stderr)
		}
	}
}

const accessLog = `192.0.2.7 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1 "-" "curl"
192.0.2.7 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1 "-" "curl"
what is this?
192.0.2.7 - - [17/May/2015:10:05:02 +0000] "GET / HTTP/1.1" 200 1 "-" "curl"
192.0.2.7 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1 "-" "curl"
`

func TestReplay(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := io.WriteString(z, accessLog); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	plain := writeFile(t, "access.log", accessLog)
	policy := writeFile(t, "c.yaml", "rules:\n  - {name: per-ip, key: ip, rate: 1/m, burst: 1}\n")
	for _, tt := range []struct {
		name  string
		stdin io.Reader
		args  []string
	}{
		{"flags", nil, []string{"--rate", "1/m", "--burst", "1", plain}},
		{"file", nil, []string{"-c", policy, plain}},
		{"gzip", nil, []string{"-c", policy, writeFile(t, "access.log.1", packed.String())}},
		{"stdin", strings.NewReader(accessLog), []string{"-c", policy, "-"}},
		{"gzip on stdin", &packed, []string{"-c", policy, "-"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := command(t, tt.stdin, append([]string{"replay", "-o", "json"}, tt.args...)...)
			want := `{"requests":4,"skipped":1,"allowed":2,"denied":2,"clients":[{"rule":"per-ip","key":"192.0.2.7","requests":4,"denied":2,`
			if code != 0 || stderr != "" || !strings.HasPrefix(stdout, want) || !json.Valid([]byte(stdout)) {
				t.Errorf("exit %d, stderr %q\ngot  %s\nwant %s…", code, stderr, stdout, want)
			}
		})
	}
	code, stdout, stderr := command(t, nil, "replay", "--rate", "1/m", "--burst", "1", plain)
	for _, want := range []string{"requests", "192.0.2.7", "skipped line 3", "what is this?", "false denials  0"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("text lacks %q:\n%s", want, stdout)
		}
	}
	if code != 0 || stderr != "" {
		t.Errorf("exit %d, stderr %q: want nothing in a pipe", code, stderr)
	}
	// Whoever names no limit learns which one is assumed.
	const assumed = "without --config and --rate, the default applies: 100/s with burst 7 per client address\n"
	if code, _, stderr := command(t, nil, "replay", "--burst", "7", plain); code != 0 || stderr != assumed {
		t.Errorf("exit %d, stderr %q, want %q", code, stderr, assumed)
	}
}

// Rotated logs, JSON lines with a field map, and fractions of a second, all in
// one run.
func TestReplaySeveralLogs(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := io.WriteString(z, "\ufeff"+`192.0.2.7 - - [17/May/2015:10:05:02.250 +0000] "GET / HTTP/1.1" 200 1`+"\n"); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	rotated := writeFile(t, "access.log.2.gz", packed.String())
	caddy := writeFile(t, "caddy.log", `{"ts":1431857104,"request":{"client_ip":"192.0.2.7","method":"GET","uri":"/"}}`+"\n")
	nginx := writeFile(t, "nginx.json", `{"msec":"1431857105.5","addr":"192.0.2.7","r":"GET / HTTP/1.1"}`+"\n")
	args := []string{"replay", "--rate", "1/h", "--burst", "1", "-o", "json"}
	code, stdout, stderr := command(t, nil, append(args, writeFile(t, "access.log", accessLog), caddy, rotated)...)
	want := `{"requests":6,"skipped":1,"allowed":1,"denied":5,"clients":[{"rule":"per-ip","key":"192.0.2.7","requests":6,"denied":5,`
	if code != 0 || stderr != "" || !strings.HasPrefix(stdout, want) || !strings.Contains(stdout, `"first":"2015-05-17T10:05:02Z","last":"2015-05-17T10:05:04Z"`) {
		t.Errorf("exit %d, stderr %q\ngot  %s\nwant %s…", code, stderr, stdout, want)
	}
	code, stdout, stderr = command(t, nil, append(args, "--fields", "time=msec,client=addr,request=r", nginx)...)
	if code != 0 || stderr != "" || !strings.HasPrefix(stdout, `{"requests":1,"skipped":0,`) || !strings.Contains(stdout, `"first":"2015-05-17T10:05:05.5Z"`) {
		t.Errorf("exit %d, stderr %q, %s", code, stderr, stdout)
	}
}

func TestReplayFails(t *testing.T) {
	t.Parallel()
	junk, log := writeFile(t, "junk.log", "hello\n"), writeFile(t, "access.log", accessLog)
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"/does/not/exist"}, cli.ExitFailure, "/does/not/exist: no such file"},
		{[]string{t.TempDir()}, cli.ExitFailure, "is a directory"},
		{[]string{writeFile(t, "cut.gz", "\x1f\x8b\x08\x00")}, cli.ExitFailure, "cut.gz: gzip: unexpected EOF"},
		{[]string{}, cli.ExitUsage, "<log> ..."},
		{[]string{junk}, cli.ExitFailure, junk + ": no line can be read; line 1: does not start with a client address: \"hello\"; accepted are the common and the combined log format"},
		{[]string{"-"}, 0, "warning: <stdin> is empty"},
		{[]string{log, log}, cli.ExitFailure, log + ": is given twice"},
		{[]string{log, "-"}, cli.ExitUsage, "cat LOG… | fastlimit replay -"},
		{[]string{"--fields", "tim=x", log}, cli.ExitUsage, `--fields: "tim" is not a field; want time, client`},
		{[]string{writeFile(t, "log.zst", "\x28\xb5\x2f\xfd")}, cli.ExitFailure, "zstdcat LOG | fastlimit replay -"},
		{[]string{"--top", "-1", "-"}, cli.ExitUsage, "--top"},
		{[]string{"-o", "xml", "-"}, cli.ExitUsage, "text"},
		{[]string{"--rate", "x", "-"}, cli.ExitUsage, "--rate"},
	} {
		code, stdout, stderr := command(t, strings.NewReader(""), append([]string{"replay"}, tt.args...)...)
		if code != tt.code || (stdout != "") != (code == 0) || !strings.Contains(stderr, tt.want) {
			t.Errorf("%v: exit %d, stdout %q, stderr %q; want %d and %q", tt.args, code, stdout, stderr, tt.code, tt.want)
		}
	}
}

// Ctrl-C ends a replay that waits for a pipe, with the exit code of shells.
func TestReplayInterrupted(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), binary, "replay", "-")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The write returns once the process reads: then its signals are wired. A
	// pipe takes 64 KiB unread.
	if _, err := io.WriteString(stdin, strings.Repeat("junk\n", 100_000)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the code tells
	if code := cmd.ProcessState.ExitCode(); code != cli.ExitInterrupted || !strings.Contains(stderr.String(), "interrupt") {
		t.Errorf("exit %d: %s", code, stderr.String())
	}
}
