package metrics

import (
	"log/slog"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/ban/feed"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/server/internal/latency"
	"github.com/fastlimit/fastlimit/server/internal/upstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// fixed has a different number in every counter, two rules in use and one that a
// swap has replaced.
func fixed() Stats {
	rule := func(name, mode string, inUse bool, n uint64) Rule {
		r := Rule{Name: name, Mode: mode, InUse: inUse}
		for _, stage := range limit.Stages() {
			r.Allowed[stage], r.Denied[stage] = n+uint64(stage), n+10+uint64(stage)
		}
		r.SketchLoad, r.TableLive, r.Evictions, r.Forgiven, r.BadCosts, r.BadRates = float64(n)/1000, float64(n)/2000, n, 2*n, 3*n, 4*n
		r.Bans, r.BansRunning, r.BansRefused = n+6, int(n)+7, n+8
		r.Audit = fastlimit.AuditStats{
			Clients: int(n) + 20, Requests: n + 21, FalseDenials: n + 22, FalseSuspects: n + 23, Excess: n + 24,
			Estimated: float64(n) + 25.9, Level: float64(n) + 26, Peak: float64(n) / 3000,
		}
		i := int64(n)
		r.Waits = fastlimit.WaitStats{Waiting: i + 1, Admitted: n + 2, Left: n + 3, Denied: n + 4, Refused: n + 5}
		return r
	}
	return Stats{
		Version: "v1", Requests: Requests{Allowed: 1, Denied: 2, ListAllowed: 10, ListDenied: 20, Banned: 25},
		Rules:            []Rule{rule("a", "enforce", true, 100), rule("b", "shadow", true, 200), rule("old", "enforce", false, 300), rule("b", "enforce", false, 400)},
		FirstSeenClients: 30, Bad: map[string]uint64{"host": 31, "framing": 32}, Untrusted: 33, Unnamed: 34, Connections: map[string]int{"idle": 35, "upstream": 36},
		Durations: durations(), Overloaded: map[string]uint64{"cpu": 91, "connections": 92, "logs": 93}, Ready: true,
		AtDoor: 97, Kept: 98, Rejected: map[string]uint64{"full": 36}, Dismissed: map[string]uint64{"client": 37, "denied": 38}, AcceptErrors: 39, DroppedLines: 41,
		ProxyErrors: map[string]uint64{"missing": 41}, HTTP2: HTTP2{Connections: 44, Streams: 45, Resets: 46, Cut: 47},
		RefusedStreams:  map[string]uint64{"full": 48, "client": 49},
		HandshakeErrors: map[string]uint64{"alpn": 42}, Expiry: map[string]float64{":443": 43},
		LostLogs: func() uint64 { return 40 },
		Upstream: &upstream.Stats{
			Servers: []upstream.ServerStats{
				{Name: "http://a:1", InUse: 50, Idle: 51, Requests: 52, Dials: 53, Failures: 54, Ejections: 55, DialErrors: map[string]uint64{"refused": 56, "timeout": 57}},
				{Name: "unix:/b", Ejected: true},
			},
			Queue: 60, Served: 61, Full: 62, TimedOut: 63, Left: 64,
		},
		Proxied: &Proxied{
			Answers: map[string]uint64{"2xx": 70, "5xx": 71}, Failures: map[string]uint64{"busy": 72}, Retries: 73, Broken: 74, Left: 75, Tunnels: 76,
		},
		Kernel: &Kernel{
			Stats: feed.Stats{
				Up: true, Held: 80, Max: 81, Pending: 82, Added: 83, Packets: 84, Bytes: 85, Refills: 86,
				Errors: map[string]uint64{"denied": 87}, Refused: map[string]uint64{"full": 1},
			},
			Refused: map[string]uint64{"full": 88, "gateway": 89}, Resets: 90,
		},
	}
}

// durations has one of a second in each histogram but one.
func durations() (d Durations) {
	var one latency.Counts
	one.Buckets[18], one.Sum = 1, time.Second
	for range limit.Stages() {
		d.Decisions = append(d.Decisions, one)
	}
	d.Decisions[0].Buckets[len(latency.Bounds)] = 2
	d.Allowed, d.Waited = one, one
	return d
}

// scrape returns the text that Prometheus gets.
func scrape(t *testing.T, stats func() Stats, others ...prometheus.Collector) string {
	t.Helper()
	w := httptest.NewRecorder()
	Handler(stats, others, slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// All names, types, labels and values. Dashboards and alerts depend on them: a change
// belongs in the changelog.
func TestNamesAndLabels(t *testing.T) {
	t.Parallel()
	body := scrape(t, fixed)
	got := strings.Join(regexp.MustCompile(`(?m)^(# TYPE )?fastlimit_.*\n`).FindAllString(body, -1), "")
	got = regexp.MustCompile(`(?m)^\w+_bucket\{.*le="(.*e-.*|0.*|2.*|5|10)"\} .*\n`).ReplaceAllString(got, "") // but for 1 s and all
	want, err := os.ReadFile("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got != strings.Replace(string(want), "GOVERSION", runtime.Version(), 1) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if problems, err := promlint.New(strings.NewReader(body)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
}

// Metrics of Go, the process and other collectors appear next to the server's own; what nobody counts is left
// out.
func TestOthersAndNobody(t *testing.T) {
	t.Parallel()
	other := prometheus.NewGauge(prometheus.GaugeOpts{Name: "fastlimit_other", Help: "Other."})
	body := scrape(t, func() Stats { return Stats{} }, other)
	for name, want := range map[string]bool{
		"\nfastlimit_other 0\n": true, "\ngo_goroutines ": true, "\nfastlimit_accept_errors_total 0\n": true,
		"\nprocess_open_fds ": runtime.GOOS == "linux", "fastlimit_log_lines_lost_total": false, "fastlimit_sketch_load": false,
	} {
		if strings.Contains(body, name) != want {
			t.Errorf("%q: want %v in\n%s", name, want, body)
		}
	}
}
