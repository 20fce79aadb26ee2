package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"testing"
	"weak"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/config"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// TestReloadsReleaseLimiters: nothing of a node keeps a limiter that another one has
// replaced, the first one included: its tables may have hundreds of MiB.
func TestReloadsReleaseLimiters(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "c.yaml", "")
	settle := func(burst, rules int) {
		text := fmt.Sprintf("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nrules:\n  - {name: per-ip, rate: 100/s, burst: %d}\n", burst)
		for i := range rules {
			text += fmt.Sprintf("  - {name: more-%d, rate: 5/m}\n", i)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	settle(100, 0)
	sys := &system{stdout: io.Discard, stderr: io.Discard, lookupEnv: func(string) (string, bool) { return "", false }}
	cmd := new(serveCmd)
	cmd.Config = file
	load := func() (*config.Config, error) { return cmd.configuration(sys) }
	cfg, err := load()
	if err != nil {
		t.Fatal(err)
	}
	sink := newLogSink(io.Discard)
	n, err := newNode(t.Context(), cfg, cmd.logger(sink), sink, sys)
	if err != nil {
		t.Fatal(err)
	}
	defer n.close()
	n.load = load
	if err := n.server.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.server.Serve(ctx) }()
	defer func() { cancel(); <-done }()
	redistest.Eventually(t, "the server", func() bool {
		resp, _ := get(t, http.DefaultClient, "http://"+n.server.AdminAddr().String()+"/readyz")
		return resp.StatusCode == http.StatusOK
	})
	var old []weak.Pointer[fastlimit.Limiter]
	for i := range 6 {
		old = append(old, weak.Make(n.limiter))
		settle(101+i, i%3)
		if err := n.reload(t.Context(), "test"); err != nil {
			t.Fatal(err)
		}
	}
	redistest.Eventually(t, "all limiters but the last are released", func() bool { // requests and the ticker may have one
		runtime.GC()
		return !slices.ContainsFunc(old, func(l weak.Pointer[fastlimit.Limiter]) bool { return l.Value() != nil })
	})
	runtime.KeepAlive(n)
}
