package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/cli"
)

// attackedLog is a day of 990 visitors and of 10 attackers, 203.0.113.0 to .9.
func attackedLog() string {
	var b strings.Builder
	midnight := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for second := range 24 * 3600 {
		line := func(client string) {
			fmt.Fprintf(&b, "%s - - [%s] \"GET / HTTP/1.1\" 200 5 \"-\" \"curl\"\n", client, midnight.Add(time.Duration(second)*time.Second).Format("02/Jan/2006:15:04:05 -0700"))
		}
		if second%60 == 0 { // a visitor loads a page of 1 to 20 files, and comes back
			visitor := second / 60 * 7 % 990
			for range 1 + visitor%20 {
				line(fmt.Sprintf("198.51.%d.%d", visitor/250, visitor%250))
			}
		}
		if attack := second / 3600; attack < 10 && second%3600 < 300 {
			for range 8 {
				line(fmt.Sprintf("203.0.113.%d", attack))
			}
		}
	}
	return b.String()
}

// A network whose addresses each send little is found, and a rule for it is written, if the log
// can be read twice; nothing of that is needed of logs without one.
func TestSuggestFindsANetwork(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	start := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	for second := range 900 {
		at := start.Add(time.Duration(second) * time.Second).Format("02/Jan/2006:15:04:05 -0700")
		fmt.Fprintf(&b, "198.51.%d.7 - - [%s] \"GET /%d HTTP/1.1\" 200 5 \"-\" \"x\"\n", second%30, at, second%40)
		for i := range 50 {
			if second >= 300 && second < 600 {
				fmt.Fprintf(&b, "203.0.113.%d - - [%s] \"GET /%d HTTP/1.1\" 200 5 \"-\" \"x\"\n", i, at, i)
			}
		}
	}
	log := writeFile(t, "access.log", b.String())
	code, stdout, stderr := command(t, nil, "suggest", log)
	if code != 0 || stderr != "" || !strings.Contains(stdout, "came from 1 network:\n#   203.0.113.0/24  15000 requests  98.0 %") || !strings.Contains(stdout, "\n    key: ip/24/48\n") {
		t.Fatalf("exit %d, %s\n%s", code, stderr, stdout)
	}
	rules := writeFile(t, "rules.yaml", strings.ReplaceAll(stdout, "mode: shadow", "mode: enforce"))
	if _, report, _ := command(t, nil, "replay", "-o", "json", "-c", rules, log); !strings.Contains(report, `"rule":"per-ip-24-48","key":"203.0.113.0/24"`) || strings.Contains(report, `"key":"198.51`) {
		t.Errorf("replayed: %s", report)
	}
	code, stdout, stderr = command(t, strings.NewReader(b.String()), "suggest", "-")
	if code != 0 || !strings.Contains(stderr, "name files instead of stdin") || !strings.Contains(stdout, "came from 1 network") || strings.Contains(stdout, "ip/24/48") {
		t.Errorf("of a stream: exit %d, %s\n%s", code, stderr, stdout)
	}
}

// What the first reading has found is not lost if there is no memory for the second: its key has few
// clients of many requests, of which there is no sample.
func TestSuggestKeepsTheFirstReport(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	start := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	for i := range 400_000 {
		at := start.Add(time.Duration(i) * 700 * time.Microsecond).Format("02/Jan/2006:15:04:05.000000 -0700")
		fmt.Fprintf(&b, "203.113.%d.%d - - [%s] \"GET / HTTP/1.1\" 200 5 \"-\" \"x\"\n", i%256, i/256%256, at)
	}
	code, stdout, stderr := command(t, nil, "suggest", "--memory", "1MiB", writeFile(t, "access.log", b.String()))
	if code != 0 || !strings.Contains(stderr, "reading the logs a second time failed: the log does not fit --memory") || !strings.Contains(stdout, "  203.113.0.0/16  ") || !strings.Contains(stdout, "key: ip\n") {
		t.Errorf("exit %d, %s\n%s", code, stderr, stdout)
	}
}

// The output, redirected into a file, is a configuration; replay of it over the same log
// denies the attackers, and nobody else.
func TestSuggestThenReplay(t *testing.T) {
	t.Parallel()
	log := writeFile(t, "access.log", attackedLog())
	code, stdout, stderr := command(t, nil, "suggest", log)
	if code != 0 || stderr != "" || !strings.Contains(stdout, "mode: shadow # would have denied at most 10 clients") || !strings.Contains(stdout, "203.0.113.9") {
		t.Fatalf("exit %d, %s\n%s", code, stderr, stdout)
	}
	rules := writeFile(t, "rules.yaml", stdout)
	if code, _, stderr := command(t, nil, "validate", "-c", rules); code != 0 {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if _, shadow, _ := command(t, nil, "replay", "-o", "json", "-c", rules, log); !strings.Contains(shadow, `"denied":0,"clients":[]`) {
		t.Errorf("in shadow mode: %s", shadow)
	}
	enforced := writeFile(t, "enforced.yaml", strings.ReplaceAll(stdout, "mode: shadow", "mode: enforce"))
	code, stdout, stderr = command(t, nil, "replay", "-o", "json", "-c", enforced, log)
	var report struct {
		Clients []struct{ Key string }
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != 0 {
		t.Fatalf("exit %d, %s%s", code, stdout, stderr)
	}
	for _, c := range report.Clients {
		if !strings.HasPrefix(c.Key, "203.0.113.") {
			t.Errorf("%s is denied", c.Key)
		}
	}
	if len(report.Clients) != 10 {
		t.Errorf("%d clients are denied, want 10", len(report.Clients))
	}
}

// Compressed logs, several logs, stdin, JSON, and a page: what replay reads, suggest reads.
func TestSuggest(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := io.WriteString(z, accessLog); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	plain, rotated := writeFile(t, "access.log", accessLog), writeFile(t, "access.log.1.gz", packed.String())
	page := filepath.Join(t.TempDir(), "page.html")
	for _, tt := range []struct {
		name  string
		stdin io.Reader
		args  []string
		want  string
	}{
		{"file", nil, []string{plain}, "# 4 requests from 2015-05-17T10:05:02Z to 2015-05-17T10:05:03Z; 1 line skipped\n"},
		{"several, one of them compressed", nil, []string{plain, rotated}, "# 8 requests from"},
		{"stdin", strings.NewReader(accessLog), []string{"-"}, "# 4 requests from"},
		{"burst", nil, []string{plain}, "    burst: 3 # the only client needed 3\n"},
		{"keys", nil, []string{"--key", "ip/24/48", "--key", "ip,path", "--path", "/", plain}, "# ip, path on /: 4 requests of 1 client\n"},
		{"spare", nil, []string{"--spare", "90 %", "--html", page, plain}, "# burst: never denies 90 % of the clients"},
		{"json", nil, []string{"-o", "json", plain}, `{"requests":4,"skipped":1,`},
		{"caddy", strings.NewReader(`{"ts":1431857104.5,"request":{"client_ip":"192.0.2.7","headers":{"X-Key":["k"]}}}`), []string{"--key", "header:X-Key", "-"}, "key: header:X-Key\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := command(t, tt.stdin, append([]string{"suggest"}, tt.args...)...)
			if code != 0 || stderr != "" || !strings.Contains(stdout, tt.want) {
				t.Errorf("exit %d, stderr %q\n%s\nlacks %s", code, stderr, stdout, tt.want)
			}
		})
	}
	if b, err := os.ReadFile(page); err != nil || !bytes.Contains(b, []byte("<svg")) {
		t.Errorf("%v: %s", err, b)
	}
}

func TestSuggestFails(t *testing.T) {
	t.Parallel()
	junk, log := writeFile(t, "junk.log", "hello\n"), writeFile(t, "access.log", accessLog)
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"/does/not/exist"}, cli.ExitFailure, "/does/not/exist: no such file; check the path"},
		{[]string{junk}, cli.ExitFailure, junk + ": no line can be read; line 1: does not start with a client address"},
		{[]string{}, cli.ExitUsage, "<log> ..."},
		{[]string{"-"}, 0, "warning: <stdin> is empty"},
		{[]string{log, log}, cli.ExitFailure, log + ": is given twice"},
		{[]string{log, "-"}, cli.ExitUsage, "cat LOG… | fastlimit suggest -"},
		{[]string{writeFile(t, "log.zst", "\x28\xb5\x2f\xfd")}, cli.ExitFailure, "zstdcat LOG | fastlimit suggest -"},
		{[]string{"--fields", "tim=x", log}, cli.ExitUsage, `--fields: "tim" is not a field; want time, client`},
		{[]string{"--spare", "0.999", log}, cli.ExitUsage, `--spare: "0.999" is out of range; want 50% to 100%`},
		{[]string{"--spare", "most", log}, cli.ExitUsage, `--spare: "most" is not a percentage`},
		{[]string{"--key", "nose", log}, cli.ExitUsage, `--key nose: "nose" is not a key; want a key: ip, ip/24/48`},
		{[]string{"--key", "ip/24", log}, cli.ExitUsage, `--key ip/24: "ip/24" does not name two prefix lengths`},
		{[]string{"--key", "", log}, cli.ExitUsage, `--key : is empty; want a key`},
		{[]string{"--path", "login", log}, cli.ExitUsage, "--path login: "},
		{[]string{"--memory", "some", log}, cli.ExitUsage, `--memory: "some" is not a size`},
		{[]string{"--html", log, log}, cli.ExitUsage, "is one of the logs, which it would overwrite"},
		{[]string{"--html", "/does/not/exist.html", log}, cli.ExitUsage, "there is no such folder"},
		{[]string{"--html", t.TempDir(), log}, cli.ExitUsage, "is a folder"},
		{[]string{"--key", "cookie:sid", log}, 0, `warning: rule "per-cookie-sid" does not apply: the log has no cookie:sid`},
		{[]string{"-o", "xml", log}, cli.ExitUsage, "text"},
	} {
		code, stdout, stderr := command(t, strings.NewReader(""), append([]string{"suggest"}, tt.args...)...)
		if code != tt.code || (stdout != "") != (code == 0) || !strings.Contains(stderr, tt.want) {
			t.Errorf("%v: exit %d, stdout %q, stderr %q; want %d and %q", tt.args, code, stdout, stderr, tt.code, tt.want)
		}
	}
	if b, err := os.ReadFile(log); err != nil || string(b) != accessLog {
		t.Errorf("the log is overwritten: %v, %q", err, b)
	}
}
