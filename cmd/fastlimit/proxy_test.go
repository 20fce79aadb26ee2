package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
)

// An app behind serve --upstream names the costs of its requests. The rest is charged, what
// was too much given back, and whoever is over the limit is denied before the app.
func TestAppNamesCosts(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if cost := r.FormValue("cost"); cost != "" {
			w.Header().Set("X-Cost", cost)
		}
		_, _ = io.WriteString(w, "the app")
	}))
	t.Cleanup(app.Close)
	file := writeFile(t, "c.yaml", fmt.Sprintf("upstream: %s\nrules: [{name: q, rate: 10/h, burst: 20, strict: true, cost: 2, cost_from: {response_header: X-Cost, fractions: true}}]\n", app.URL))
	p := serve(t, "-c", file)
	for client, requests := range map[string][]struct {
		cost string
		code int
	}{
		// 12, 12, 12.5, 14.5, 16.5 and 18.5 of 20: one that cost less than 2 in the end had to fit, too.
		"127.0.0.2": {{"12", 200}, {"0", 200}, {"0.5", 200}, {"many", 200}, {"", 200}, {"2", 200}, {"0", 429}, {"", 429}},
		"127.0.0.3": {{"1000", 200}, {"0", 429}}, // more than fits
	} {
		c := clientFrom(t, client)
		for i, r := range requests {
			before := asked.Load()
			resp, body := get(t, c, "http://"+p.listen+"/?cost="+url.QueryEscape(r.cost))
			if resp.StatusCode != r.code || (body == "the app") != (r.code == 200) || (asked.Load() > before) != (r.code == 200) {
				t.Errorf("%s, request %d: %d %q, the app was asked %d times", client, i, resp.StatusCode, body, asked.Load()-before)
			}
			if h := resp.Header.Values("X-Cost"); h != nil {
				t.Errorf("%s, request %d: the client sees the cost %q", client, i, h)
			}
		}
	}
	if n := p.metric(t, `fastlimit_bad_costs_total{mode="enforce",rule="q"}`); n != 1 {
		t.Errorf("%v bad costs", n)
	}
}
