package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/fastlimit/fastlimit/internal/cli"
	"github.com/fastlimit/fastlimit/internal/testkit"
)

// A node that drains is not ready, and the command says so.
func TestReady(t *testing.T) {
	t.Parallel()
	p := serve(t, "--drain-delay", "1h")
	if code, stdout, stderr := command(t, nil, "ready", "--admin", p.admin); code != 0 || stdout != "ready\n" || stderr != "" {
		t.Errorf("serving: exit %d, %q, %q", code, stdout, stderr)
	}
	p.signal(syscall.SIGTERM)
	p.waitLog("draining")
	code, stdout, stderr := command(t, nil, "ready", "--admin", p.admin)
	if want := "fastlimit ready: " + p.admin + " is not ready: draining\n"; code != cli.ExitFailure || stdout != "" || stderr != want {
		t.Errorf("draining: exit %d, %q, %q, want %q", code, stdout, stderr, want)
	}
}

// Whatever else listens there, or nothing, is not ready.
func TestReadyOfOthers(t *testing.T) {
	t.Parallel()
	answers := func(status int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body) // the client may have left
		}))
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	for _, c := range []struct {
		admin, want string
		code        int
	}{
		{testkit.FreeAddr(t), "nothing listens on", cli.ExitFailure},
		{answers(200, "hello\n"), "did not answer with its readiness", cli.ExitFailure},
		{answers(404, "ok\n"), "did not answer with its readiness", cli.ExitFailure},
		{answers(503, "starting\x1b[31m\n"), `starting\x1b[31m`, cli.ExitFailure},
		{"8081", "want host:port", cli.ExitUsage},
	} {
		code, stdout, stderr := command(t, nil, "ready", "--admin", c.admin)
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit %d, %q, %q", c.want, code, stdout, stderr)
		}
	}
}
