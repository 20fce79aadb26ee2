package admin

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/server/internal/guard"
)

// calls notes what it is asked, and refuses the rule "bad" as its status says.
type calls struct{ made []string }

type refused int

func (r refused) Error() string   { return fmt.Sprint("refused ", int(r)) }
func (r refused) HTTPStatus() int { return int(r) }

func (c *calls) List(rule string) (any, error) {
	if rule == "bad" {
		return nil, refused(404)
	}
	return map[string]string{"rule": rule}, nil
}

func (c *calls) Put(_ context.Context, body []byte, by string) (any, error) {
	c.made = append(c.made, "put "+string(body)+" by "+by)
	if string(body) == "bad" {
		return nil, refused(507)
	}
	return map[string]bool{"ok": true}, nil
}

func (c *calls) Delete(_ context.Context, rule string, key []string, by string) error {
	c.made = append(c.made, fmt.Sprintf("delete %s %q by %s", rule, key, by))
	if rule == "bad" {
		return refused(404)
	}
	return nil
}

type elsewhere struct{ net.Listener }

func (elsewhere) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 8081} }

const token = "0123456789abcdef"

// changing is what changes something, by calls with a body and by calls with a query.
type changing struct {
	path, query, body string
	list              string   // what others may read; "" is path
	methods           []string // of which the first has the body
	others            []string // which are not routed
}

// strangers has all those call who may not, on loopback and on another address, and returns
// a front and what the caller of each has to send. Nothing may have come through.
func (c *changing) strangers(t *testing.T, remote bool, change func(*Config)) (f *Front, auth []string) {
	t.Helper()
	var log bytes.Buffer
	f = fixed(func(config *Config) {
		config.Log = slog.New(slog.NewTextHandler(&log, nil))
		change(config)
	})
	if err := f.Listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	if remote {
		f.ln = elsewhere{f.ln}
		if resp := ask(f, c.methods[0], c.path, c.body, "Content-Type", jsonType, "Authorization", "Bearer "+token); resp.StatusCode != 403 {
			t.Errorf("without a token in the file: %d", resp.StatusCode)
		}
		f.Operator, auth = func() guard.Operator { return guard.Operator{Tokens: []guard.Token{{Secret: token}}} }, []string{"Authorization", "Bearer " + token}
		for _, method := range c.methods {
			for _, wrong := range []string{"", "Bearer x", "Bearer " + token + " "} {
				resp := ask(f, method, c.query, c.body, "Content-Type", jsonType, "Authorization", wrong)
				if resp.StatusCode != 401 || resp.Header.Get("WWW-Authenticate") != "Bearer" || resp.Header.Get("Content-Type") != problemType {
					t.Errorf("%s with %q: %d %v", method, wrong, resp.StatusCode, resp.Header)
				}
			}
		}
		if resp := ask(f, "GET", cmp.Or(c.list, c.path), ""); resp.StatusCode != 200 {
			t.Errorf("reading without a token: %d", resp.StatusCode)
		}
		if n := strings.Count(log.String(), "a change was refused"); n != 1 || strings.Contains(log.String(), token) {
			t.Errorf("%d lines of refusals: %s", n, log.String())
		}
	}
	// A page in the operator's browser, which may have the token in reach.
	for _, site := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "http://evil.example"}, {"Origin", "null"}} {
		for _, method := range append(c.others, c.methods...) {
			resp := ask(f, method, c.query, c.body, append(append(site, "Content-Type", jsonType), auth...)...)
			if resp.StatusCode != 403 || resp.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s with %q: %d", method, site, resp.StatusCode)
			}
		}
	}
	for _, media := range []string{"", "text/plain", "multipart/form-data", "application/x-www-form-urlencoded"} {
		if resp := ask(f, c.methods[0], c.path, c.body, append(auth, "Content-Type", media)...); resp.StatusCode != 415 {
			t.Errorf("a body of %q: %d", media, resp.StatusCode)
		}
	}
	for _, method := range c.others {
		if resp := ask(f, method, c.path, c.body, append(auth, "Content-Type", jsonType)...); resp.StatusCode != 405 {
			t.Errorf("%s: %d", method, resp.StatusCode)
		}
	}
	return f, auth
}

// answer is what a call is answered with.
type answer struct {
	method, path, body string
	status             int
	reply              string // a part of it
}

func (a *answer) check(t *testing.T, f *Front, auth []string) {
	t.Helper()
	resp := ask(f, a.method, a.path, a.body, append(auth, "Content-Type", jsonType)...)
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != a.status || !strings.Contains(string(b), a.reply) {
		t.Errorf("%s %.60s: %d %s, want %d %s", a.method, a.path, resp.StatusCode, b, a.status, a.reply)
	}
}

func TestOverrides(t *testing.T) {
	t.Parallel()
	const put, query = `{"rule":"a"}`, "/v1/overrides?rule=r&key=a%20b&key=%00"
	for _, remote := range []bool{false, true} {
		c := &calls{}
		guarded := changing{path: "/v1/overrides", query: query, body: put, methods: []string{"PUT", "DELETE"}, others: []string{"POST", "PATCH", "OPTIONS"}}
		f, auth := guarded.strangers(t, remote, func(config *Config) { config.Overrides = c })
		if len(c.made) > 0 {
			t.Errorf("a call that was refused came through: %q", c.made)
		}
		for _, a := range []answer{
			{"GET", "/v1/overrides", "", 200, `{"rule":""}`},
			{"GET", "/v1/overrides?rule=x", "", 200, `{"rule":"x"}`},
			{"GET", "/v1/overrides?rule=bad", "", 404, "refused 404"},
			{"PUT", "/v1/overrides", put, 200, `{"ok":true}`},
			{"PUT", "/v1/overrides", "bad", 507, "refused 507"},
			{"PUT", "/v1/overrides", strings.Repeat("a", maxChangeBytes+1), 413, "send at most"},
			{"DELETE", query, "", 200, `{"deleted":true}`},
			{"DELETE", "/v1/overrides?rule=bad&key=k", "", 404, "refused 404"},
			{"DELETE", "/v1/overrides?rule=r", "", 400, "name the override"},
			{"DELETE", "/v1/overrides?key=k", "", 400, "name the override"},
			{"DELETE", "/v1/overrides?rule=r" + strings.Repeat("&key=k", maxKeyParts+1), "", 400, "name the override"},
		} {
			a.check(t, f, auth)
		}
		want := []string{"put " + put + " by 192.0.2.1", "put bad by 192.0.2.1", `delete r ["a b" "\x00"] by 192.0.2.1`, `delete bad ["k"] by 192.0.2.1`}
		if fmt.Sprint(c.made) != fmt.Sprint(want) {
			t.Errorf("calls: %q, want %q", c.made, want)
		}
	}
	if resp := ask(fixed(), "GET", "/v1/overrides", ""); resp.StatusCode != 404 {
		t.Errorf("without any: %d", resp.StatusCode)
	}
}
