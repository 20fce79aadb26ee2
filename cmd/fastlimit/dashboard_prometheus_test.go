//go:build prometheus

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/rls/api"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// prometheusExample is what docs/operations.md shows of scraping.
var prometheusExample = filepath.Join("..", "..", "deploy", "prometheus", "prometheus.yml")

// The example is valid, also with a token, and the docs show it.
func TestDashboardScrapeExample(t *testing.T) {
	t.Parallel()
	text := readText(t, prometheusExample)
	withToken := strings.Replace(text, "# authorization: {credentials_file: /etc/prometheus/fastlimit-token}", "authorization: {credentials_file: "+writeFile(t, "token", "x")+"}", 1)
	rules, err := filepath.Abs(alertRules)
	if err != nil || withToken == text {
		t.Fatalf("no line for a token: %v", err)
	}
	withToken = strings.Replace(withToken, "[alerts.yml]", "["+rules+"]", 1)
	for _, file := range []string{prometheusExample, writeFile(t, "prometheus.yml", withToken)} {
		if out, err := exec.Command("promtool", "check", "config", file).CombinedOutput(); err != nil {
			t.Errorf("promtool: %v\n%s", err, out)
		}
	}
	_, scrapes, _ := strings.Cut(text, "\nscrape_configs:\n")
	if page := readText(t, filepath.Join("..", "..", "docs", "operations.md")); scrapes == "" || !strings.Contains(page, "```yaml\nscrape_configs:\n"+scrapes+"```\n") {
		t.Error("docs/operations.md shows another example")
	}
}

// series are the labels and values of a query since the test began, as Grafana draws it.
func (p *prometheus) series(expr string, since time.Time) (labels []map[string]string, values []float64) {
	p.t.Helper()
	var reply struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Values [][2]any
			}
		}
	}
	// Whole seconds, so that the last step is no earlier than what has been waited for.
	end := time.Now()
	begin := end.Add(-end.Sub(since).Truncate(time.Second) - time.Second)
	p.api(fmt.Sprintf("query_range?step=1&start=%.3f&end=%.3f&query=%s", float64(begin.UnixMilli())/1000, float64(end.UnixMilli())/1000, url.QueryEscape(expr)), &reply)
	for _, r := range reply.Data.Result {
		n := len(values)
		for _, v := range r.Values {
			text, _ := v[1].(string)
			if f, err := strconv.ParseFloat(text, 64); err != nil {
				p.t.Fatal(err)
			} else if !math.IsNaN(f) {
				values = append(values, f)
			}
		}
		if len(values) > n {
			labels = append(labels, r.Metric)
		}
	}
	return labels, values
}

// What happens before the panels are read: each of these counters has risen, seen by Prometheus.
var dashboardEvents = []string{
	`fastlimit_requests_total{decision="allow"}`, `fastlimit_requests_total{decision="deny"}`,
	`fastlimit_request_duration_seconds_count{decision="allow"}`, `fastlimit_request_duration_seconds_count{decision="deny"}`,
	`fastlimit_decisions_total{mode="shadow",decision="deny"}`, `fastlimit_decisions_total{stage="fallback"}`,
	`fastlimit_bans_total`, `fastlimit_bad_requests_total`, `fastlimit_redis_errors_total`, `fastlimit_redis_refused_total`,
	`fastlimit_sync_rejected_total`, `fastlimit_upstream_first_byte_duration_seconds_count`, `fastlimit_upstream_unanswered_total`,
	`ratelimit_service_rate_limit_over_limit`, `ratelimit_service_response_time_seconds_count`,
}

// A real Prometheus scrapes two nodes of a cluster with Redis and an app, one with PostgreSQL and
// two of fastlimit rls, as the example says, under a flood: no panel is empty, and no share is
// below 0 or above 1.
func TestDashboardsShowNodes(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the app") }))
	t.Cleanup(app.Close)
	node := func(name, upstream string, seeds ...string) *process {
		return serveFile(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%s"}
upstream: %s
kernel: {mode: shadow}
rules:
- {name: per-ip, match: {path: /limited}, rate: 1/h, burst: 2, strict: true, ban: {after: 3, within: 10s, for: 1h, max: 1h}}
- {name: all, rate: 100000/s, strict: true}
- {name: new, rate: 1/h, burst: 2, mode: shadow}
`, redis.Addr, upstream)+clusterSettings(name, "127.0.0.1:0", seeds))
	}
	a := node("a", app.URL)
	b := node("b", "http://127.0.0.1:1", a.clusterAddr(t))
	a.waitPeers(t, 1)
	env := []string{"FASTLIMIT_CLUSTER_BIND=127.0.0.1:0", "FASTLIMIT_CLUSTER_SECRET_FILE=" + writeFile(t, "secret", "0123456789abcdef\n")}
	peer := startRLSPeer(t, env...)
	other := startRLSPeer(t, append(env, "FASTLIMIT_CLUSTER_JOIN="+peer.bind(t))...)
	peer.write(t, "config/b.yaml", "domain: two\ndescriptors: [{key: user, descriptors: [{key: path, rate_limit: {unit: year, requests_per_unit: 2}}]}]\n")
	peer.hasPeers(t, 1)

	config := regexp.MustCompile(`(scrape|evaluation)_interval: 15s`).ReplaceAllString(readText(t, prometheusExample), "${1}_interval: 250ms")
	for i, nodes := range []string{a.admin + `", "` + b.admin + `", "` + postgresNode(t).admin, peer.metrics + `", "` + other.metrics} {
		config = strings.Replace(config, []string{`10.0.0.1:8081", "10.0.0.2:8081`, "10.0.0.3:9090"}[i], nodes, 1)
	}
	began := time.Now()
	p := runPrometheus(t, config, 5)
	happened := func(counter string) {
		redistest.Eventually(t, counter, func() bool { return len(p.query("increase("+counter+"[1h]) > 0")) > 0 })
	}
	for _, f := range []func(stop <-chan struct{}){
		func(stop <-chan struct{}) { new(answers).flood(t, "http://"+a.listen+"/limited", 1, stop) }, // most is denied
		func(stop <-chan struct{}) { trickle(t, a, b, stop) },
		func(stop <-chan struct{}) { callAgain(t, peer, stop) },
	} {
		begin, end := during(f)
		begin()
		defer end()
	}
	happened("fastlimit_redis_round_trip_seconds_count")
	redis.Kill()
	for _, counter := range dashboardEvents {
		happened(counter)
	}
	for file, d := range dashboards(t) {
		t.Run(file, func(t *testing.T) { (&prometheus{t, p.addr}).shows(d, began) })
	}
}

// trickle has nodes admit requests, and sends one what is no request and what is no packet of the
// cluster.
func trickle(t *testing.T, bad, other *process, stop <-chan struct{}) {
	nonsense := map[string]string{"tcp": bad.listen, "udp": bad.clusterAddr(t)}
	for {
		get(t, http.DefaultClient, "http://"+bad.listen+"/")
		get(t, http.DefaultClient, "http://"+other.listen+"/")
		for network, addr := range nonsense {
			c, err := net.Dial(network, addr)
			if err == nil {
				_, err = c.Write([]byte("nonsense\r\n\r\n"))
				c.Close()
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
		select {
		case <-stop:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// callAgain is over a limit of two steps soon.
func callAgain(t *testing.T, r *rlsPeer, stop <-chan struct{}) {
	for {
		if err := r.conn.Invoke(t.Context(), "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", &api.RateLimitRequest{
			Domain: "two", Descriptors: []*api.RateLimitDescriptor{{Entries: []*api.RateLimitDescriptor_Entry{{Key: "user", Value: "x"}, {Key: "path", Value: "y"}}}},
		}, new(api.RateLimitResponse)); err != nil {
			t.Error(err)
			return
		}
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// shows reads all panels, with all values of the variables selected.
func (p *prometheus) shows(d dashboard, since time.Time) {
	t := p.t
	values := []string{"$__rate_interval", "1h", "$__range", "1h"}
	fill := func(expr string) string { return strings.NewReplacer(values...).Replace(expr) }
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		selector := strings.TrimSuffix(strings.TrimPrefix(v.Definition, "label_values("), ", "+v.Name+")")
		var all []string
		found, _ := p.series("group by ("+v.Name+") ("+fill(selector)+")", since)
		for _, labels := range found {
			all = append(all, regexp.QuoteMeta(labels[v.Name]))
		}
		if len(all) == 0 || all[0] == "" {
			t.Fatalf("$%s selects %q", v.Name, all)
		}
		if v.AllValue != "" {
			all = []string{v.AllValue}
		}
		quoted, _ := json.Marshal("(" + strings.Join(all, "|") + ")")
		values = append(values, "$"+v.Name, strings.Trim(string(quoted), `"`))
	}
	for _, panel := range d.panels() {
		for _, q := range panel.Targets {
			labels, got := p.series(fill(q.Expr), since)
			if len(labels) == 0 {
				t.Errorf("%s is empty: %s", panel.Title, q.Expr)
			}
			for _, v := range got {
				if v < 0 || math.IsInf(v, 0) || panel.FieldConfig.Defaults.Unit == "percentunit" && v > 1.000001 {
					t.Errorf("%s: %v of %s", panel.Title, v, q.Expr)
					break
				}
			}
			for _, name := range submatches(legendLabel, q.LegendFormat) {
				named := false
				for _, l := range labels {
					named = named || l[name] != ""
				}
				if !named {
					t.Errorf("%s: no series has the label %s of the legend: %s", panel.Title, name, q.Expr)
				}
			}
			for _, m := range exprSelector.FindAllString(q.Expr, -1) { // "or" hides that one of two is empty
				if labels, _ := p.series(fill(m), since); len(labels) == 0 {
					t.Errorf("%s: nothing is %s", panel.Title, m)
				}
			}
		}
	}
}
