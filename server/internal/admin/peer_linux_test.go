package admin

import (
	"context"
	"io"
	"net"
	"net/http"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
)

// Who makes a change by a Unix socket is named as the kernel says, and not by what the call claims.
func TestCallerOnUnixSocket(t *testing.T) {
	t.Parallel()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "admin")
	c := &ruleCalls{}
	f := fixed(func(config *Config) {
		config.Listen = func() (net.Listener, error) { return net.Listen("unix", socket) }
		config.Rules = c
	})
	if err := f.Listen(); err != nil {
		t.Fatal(err)
	}
	f.Begin(func(err error) { t.Error(err) })
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://localhost/v1/rules/per-ip", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Forwarded-For", "198.51.100.1")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	f.Drain(0, 0)
	f.Serve(t.Context())
	if want := "undo per-ip, all false, by user " + me.Username; resp.StatusCode != 200 || len(c.made) != 1 || c.made[0] != want {
		t.Errorf("%d, calls %q, want %q", resp.StatusCode, c.made, want)
	}
	if got := userName(4_294_967_294); !strings.HasPrefix(got, "user ") {
		t.Errorf("a user without a name: %q", got)
	}
}
