package admin

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
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

func TestOverrides(t *testing.T) {
	t.Parallel()
	const token, put, query = "0123456789abcdef", `{"rule":"a"}`, "/v1/overrides?rule=r&key=a%20b&key=%00"
	for _, remote := range []bool{false, true} {
		var log bytes.Buffer
		c := &calls{}
		f := fixed(func(config *Config) { config.Overrides, config.Log = c, slog.New(slog.NewTextHandler(&log, nil)) })
		if err := f.Listen(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.Close)
		var auth []string
		if remote {
			f.ln = elsewhere{f.ln}
			if resp := ask(f, "PUT", "/v1/overrides", put, "Content-Type", jsonType, "Authorization", "Bearer "+token); resp.StatusCode != 403 {
				t.Errorf("without a token in the file: %d", resp.StatusCode)
			}
			f.Operator.Token, auth = token, []string{"Authorization", "Bearer " + token}
			for _, method := range []string{"PUT", "DELETE"} {
				for _, wrong := range []string{"", "Bearer x", "Bearer " + token + " "} {
					resp := ask(f, method, query, put, "Content-Type", jsonType, "Authorization", wrong)
					if resp.StatusCode != 401 || resp.Header.Get("WWW-Authenticate") != "Bearer" || resp.Header.Get("Content-Type") != problemType {
						t.Errorf("%s with %q: %d %v", method, wrong, resp.StatusCode, resp.Header)
					}
				}
			}
			if resp := ask(f, "GET", "/v1/overrides", ""); resp.StatusCode != 200 {
				t.Errorf("reading without a token: %d", resp.StatusCode)
			}
			if n := strings.Count(log.String(), "a change was refused"); n != 1 || strings.Contains(log.String(), token) {
				t.Errorf("%d lines of refusals: %s", n, log.String())
			}
		}
		// A page in the operator's browser, which may have the token in reach.
		for _, site := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "http://evil.example"}, {"Origin", "null"}} {
			for _, method := range []string{"PUT", "DELETE", "OPTIONS", "POST"} {
				resp := ask(f, method, query, put, append(append(site, "Content-Type", jsonType), auth...)...)
				if resp.StatusCode != 403 || resp.Header.Get("Access-Control-Allow-Origin") != "" {
					t.Errorf("%s with %q: %d", method, site, resp.StatusCode)
				}
			}
		}
		for _, media := range []string{"", "text/plain", "multipart/form-data"} {
			if resp := ask(f, "PUT", "/v1/overrides", put, append(auth, "Content-Type", media)...); resp.StatusCode != 415 {
				t.Errorf("a body of %q: %d", media, resp.StatusCode)
			}
		}
		for _, method := range []string{"POST", "PATCH", "OPTIONS"} {
			if resp := ask(f, method, "/v1/overrides", put, append(auth, "Content-Type", jsonType)...); resp.StatusCode != 405 {
				t.Errorf("%s: %d", method, resp.StatusCode)
			}
		}
		if len(c.made) > 0 {
			t.Errorf("a call that was refused came through: %q", c.made)
		}
		for _, a := range []struct {
			method, path, body string
			status             int
			reply              string
		}{
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
			resp := ask(f, a.method, a.path, a.body, append(auth, "Content-Type", jsonType)...)
			if b, _ := io.ReadAll(resp.Body); resp.StatusCode != a.status || !strings.Contains(string(b), a.reply) {
				t.Errorf("%s %.60s: %d %s, want %d %s", a.method, a.path, resp.StatusCode, b, a.status, a.reply)
			}
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
