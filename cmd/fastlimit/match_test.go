package main

import (
	"maps"
	"net/http"
	"os/exec"
	"strings"
	"testing"
)

// Which requests a rule of the file applies to, as clients see it: with and without a body,
// since the two take different ways through the server.
func TestMatchOverHTTP(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "fastlimit.yaml", `
listen: 127.0.0.1:0
admin: 127.0.0.1:0
rules:
  - name: free
    match:
      header: {X-Tier: "free*", X-Region: [eu, us]}
      not: {path: [/healthz, "/static/*"], method: OPTIONS, header: {X-Internal: "yes"}}
    rate: 1/h
    burst: 1
    strict: true
`)
	url := "http://" + start(t, exec.Command(binary, "serve", "-c", file)).listen
	type fields = http.Header
	free := fields{"X-Tier": {"free-2"}, "X-Region": {"us"}}
	with := func(name string, values ...string) fields {
		f := free.Clone()
		f[name] = values
		return f
	}
	for _, body := range []string{"", "body"} {
		for i, tt := range []struct {
			method, path string
			fields       fields
			limited      bool
		}{
			{"POST", "/", free, true},
			{"POST", "/", fields{"x-tier": {"free"}, "x-region": {"eu"}}, true},
			{"POST", "/", with("X-Region", "asia"), false},
			{"POST", "/", with("X-Region", "asia", "eu"), true},
			{"POST", "/", fields{"X-Tier": {"free"}}, false},
			{"POST", "/", nil, false},
			{"POST", "/healthz", free, false},
			{"POST", "/static/a/../b", free, false},
			{"POST", "/static/../b", free, true},
			{"OPTIONS", "/", free, false},
			{"POST", "/", with("X-Internal", "yes"), false},
			{"POST", "/", with("X-Internal", "yes", "no"), true},
			{"POST", "/", with("X-Internal", "no"), true},
		} {
			// An address for each, so that buckets have no past.
			c := clientFrom(t, map[string]string{"": "127.0.2.", "body": "127.0.3."}[body]+string(rune('1'+i/10))+string(rune('0'+i%10)))
			for n, want := range []int{http.StatusOK, map[bool]int{true: http.StatusTooManyRequests, false: http.StatusOK}[tt.limited]} {
				req, err := http.NewRequestWithContext(t.Context(), tt.method, url+tt.path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				maps.Copy(req.Header, tt.fields)
				resp, err := c.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				if resp.StatusCode != want {
					t.Errorf("%s %s %v, body %q, request %d: status %d, want %d", tt.method, tt.path, tt.fields, body, n+1, resp.StatusCode, want)
				}
			}
		}
	}
}
