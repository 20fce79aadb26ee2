package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/fastlimit/fastlimit/internal/cli"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

func TestTopOutOfTheBox(t *testing.T) {
	t.Parallel()
	p := serve(t) // it works without a word of configuration
	for range 20 {
		get(t, http.DefaultClient, "http://"+p.listen+"/")
	}
	redistest.Eventually(t, "the client", func() bool {
		code, stdout, stderr := command(t, nil, "top", "--admin", p.admin, "-o", "json")
		if code != 0 || stderr != "" {
			t.Fatalf("exit %d: %s", code, stderr)
		}
		return strings.HasPrefix(stdout, `{"clients":[{"rule":"per-ip","key":"127.0.0.1","rate":`)
	})
	none := serve(t, "-c", writeFile(t, "c.yaml", "top_talkers: 0\nrules: [{name: per-ip, rate: 1000/s}]\n"))
	code, stdout, stderr := command(t, nil, "top", "--admin", none.admin)
	if code != cli.ExitFailure || stdout != "" || !strings.Contains(stderr, "top_talkers is 0") {
		t.Errorf("exit %d, %q, %s", code, stdout, stderr)
	}
}

// Each way to fail says what to do, on stderr alone.
func TestTopFails(t *testing.T) {
	t.Parallel()
	answers := func(status int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}))
		t.Cleanup(s.Close)
		return strings.TrimPrefix(s.URL, "http://")
	}
	// While a connection is open its own port is taken, and nothing listens on it.
	conn, err := net.Dial("tcp", answers(200, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	nobody := conn.LocalAddr().String()
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--admin", nobody}, cli.ExitFailure, "nothing listens on 127.0.0.1:"},
		{[]string{"--admin", "no-such-host.invalid:8081"}, cli.ExitFailure, "name the admin address with --admin"},
		{[]string{"--admin", answers(200, "<html>")}, cli.ExitFailure, "is it the admin listener of fastlimit?"},
		{[]string{"--admin", answers(200, "{}")}, cli.ExitFailure, "is it the admin listener of fastlimit?"},
		{[]string{"--admin", answers(404, "404 page not found")}, cli.ExitFailure, "with /v1/top?"},
		{[]string{"--admin", answers(400, `{"detail":"n=\u001b[31m"}`)}, cli.ExitFailure, `"n=\x1b[31m"`},
		{[]string{"--admin", "localhost"}, cli.ExitUsage, "--admin localhost: want host:port"},
		{[]string{"--admin", "a b:1"}, cli.ExitUsage, "--admin a b:1: want host:port"},
		{[]string{"-n", "0"}, cli.ExitUsage, "-n 0: want 1 or more"},
		{[]string{"--sort", "name"}, cli.ExitUsage, "denied"},
		{[]string{"--once", "--watch"}, cli.ExitUsage, "remove one of the two"},
		{[]string{"--watch", "--every", "1ms"}, cli.ExitUsage, "--every 1ms: want 100ms or more"},
		{[]string{"--by", "asn"}, cli.ExitUsage, "agent"},
		{[]string{"--by", "net", "--rule", "a"}, cli.ExitUsage, "remove --rule and --sort"},
		{[]string{"--by", "net", "--admin", answers(200, `{"clients":[]}`)}, cli.ExitFailure, "did not answer with a list of groups"},
		{[]string{"-o", "xml"}, cli.ExitUsage, "text"},
	} {
		code, stdout, stderr := command(t, nil, append([]string{"top"}, tt.args...)...)
		if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.want) || strings.Contains(stderr, "\x1b") {
			t.Errorf("%v: exit %d, stdout %q, stderr %q; want %d and %q", tt.args, code, stdout, stderr, tt.code, tt.want)
		}
	}
}

// Groups are printed with what is not in any, and what clients have written cannot steer a
// terminal.
func TestTopBy(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.RawQuery; got != "by=path&n=2" {
			t.Errorf("asks %s", got)
		}
		fmt.Fprint(w, `{"by":"path","requests":200,"groups":[{"group":"/login","rate":150,"error":2.5,"denied":140,"share":0.75},{"group":"/\u001b[2J x","rate":30,"share":0.15}],"totals":{}}`)
	}))
	defer s.Close()
	code, stdout, stderr := command(t, nil, "top", "--by", "path", "-n", "2", "--admin", strings.TrimPrefix(s.URL, "http://"))
	const want = "PATH          REQUESTS/S  ±    DENIED/S  SHARE\n/login        150.0       2.5  140.0     75%\n\"/\\x1b[2J x\"  30.0        0.0  0.0       15%\n(others)      20.0        -    -         10%\n"
	if code != 0 || stdout != want || stderr != "" {
		t.Errorf("exit %d, %q\nwant %q\nstderr %s", code, stdout, want, stderr)
	}
}

// In a pipe it shows one table after another and nothing else, until it is
// interrupted; what a server sends cannot steer a terminal.
func TestTopWatchesInAPipe(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"clients":[{"rule":"r","key":"\u001b[2J","rate":1.25,"error":0.5,"nodes":["a","b"]}]}`)
	}))
	defer s.Close()
	cmd := exec.CommandContext(t.Context(), binary, "top", "--admin", strings.TrimPrefix(s.URL, "http://"), "--watch", "--every", "100ms")
	var out, errs testkit.Log
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "three tables", func() bool { return strings.Count(out.String(), "RULE") >= 3 })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the code tells
	const table = "RULE  CLIENT     UNITS/S  ±    DENIED/S  LIMIT/S  SHARE  STATE  NODES\nr     \"\\x1b[2J\"  1.2      0.5  0.0       ?        -      -      a,b\n"
	if code := cmd.ProcessState.ExitCode(); code != cli.ExitInterrupted || !strings.HasPrefix(out.String(), table+"\n"+table) || strings.Contains(out.String(), "\x1b") {
		t.Errorf("exit %d, stdout\n%s\nstderr %s", code, out.String(), errs.String())
	}
}
