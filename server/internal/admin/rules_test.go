package admin

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// ruleCalls notes what it is asked, and refuses changes to the rule "bad".
type ruleCalls struct{ made []string }

func (*ruleCalls) List() any { return map[string]string{"list": "all"} }

func (c *ruleCalls) Change(_ context.Context, rule string, body []byte, by string) (any, error) {
	return c.note(rule, "change "+rule+" "+string(body)+" by "+by)
}

func (c *ruleCalls) Undo(_ context.Context, rule string, forAll bool, by string) (any, error) {
	return c.note(rule, fmt.Sprintf("undo %s, all %v, by %s", rule, forAll, by))
}

func (c *ruleCalls) note(rule, call string) (any, error) {
	c.made = append(c.made, call)
	if rule == "bad" {
		return nil, refused(409)
	}
	return map[string]bool{"ok": true}, nil
}

func TestRules(t *testing.T) {
	t.Parallel()
	const body = `{"mode":"shadow"}`
	for _, remote := range []bool{false, true} {
		c := &ruleCalls{}
		guarded := changing{list: "/v1/rules", path: "/v1/rules/per-ip", query: "/v1/rules/per-ip?all_nodes=true", body: body, methods: []string{"PATCH", "DELETE"}, others: []string{"PUT", "POST", "OPTIONS"}}
		f, auth := guarded.strangers(t, remote, func(config *Config) { config.Rules = c })
		if len(c.made) > 0 {
			t.Errorf("a call that was refused came through: %q", c.made)
		}
		for _, a := range []answer{
			{"GET", "/v1/rules", "", 200, `{"list":"all"}`},
			{"PATCH", "/v1/rules/per-ip", body, 200, `{"ok":true}`},
			{"PATCH", "/v1/rules/bad", body, 409, "refused 409"},
			{"PATCH", "/v1/rules/per-ip", strings.Repeat("a", maxChangeBytes+1), 413, "send at most"},
			{"DELETE", "/v1/rules/a%20b", "", 200, `{"ok":true}`},
			{"DELETE", "/v1/rules/per-ip?all_nodes=true", "", 200, `{"ok":true}`},
			{"DELETE", "/v1/rules/per-ip?all_nodes=false", "", 200, `{"ok":true}`},
			{"DELETE", "/v1/rules/bad", "", 409, "refused 409"},
			{"DELETE", "/v1/rules/per-ip?all_nodes=%1b", "", 400, `all_nodes=\\x1b: want true or false`},
		} {
			a.check(t, f, auth)
		}
		want := []string{
			"change per-ip " + body + " by 192.0.2.1", "change bad " + body + " by 192.0.2.1", "undo a b, all false, by 192.0.2.1",
			"undo per-ip, all true, by 192.0.2.1", "undo per-ip, all false, by 192.0.2.1", "undo bad, all false, by 192.0.2.1",
		}
		if fmt.Sprint(c.made) != fmt.Sprint(want) {
			t.Errorf("calls: %q, want %q", c.made, want)
		}
	}
	none := fixed()
	if err := none.Listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(none.Close)
	for method, path := range map[string]string{"GET": "/v1/rules", "PATCH": "/v1/rules/per-ip", "DELETE": "/v1/rules/per-ip"} {
		a := answer{method, path, body, 404, "changes no rules"}
		a.check(t, none, nil)
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	f := fixed(func(c *Config) { c.Changes = func(n int) any { return map[string]int{"up to": n} } })
	for _, a := range []answer{
		{"GET", "/v1/changes", "", 200, `{"up to":100}`},
		{"GET", "/v1/changes?limit=1000", "", 200, `{"up to":1000}`},
		{"GET", "/v1/changes?limit=1001", "", 400, "limit=1001: want a whole number from 1 to 1000"},
	} {
		a.check(t, f, nil)
	}
	a := answer{"GET", "/v1/changes", "", 404, "records no changes"}
	a.check(t, fixed(), nil)
}

// Who makes a change by a Unix socket is named as the kernel says, and not by what the call claims.
func TestCallerOnUnixSocket(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux is asked who is at the other end")
	}
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
