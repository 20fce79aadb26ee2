package httpbench

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bench/load"
	"github.com/fastlimit/fastlimit/bench/oracle"
)

// As a child the test binary is a limiter: it admits the first requests of each
// source, as many as the burst.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && (os.Args[1] == GeneratorCommand || os.Args[1] == BareCommand) {
		if err := command(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv("HTTPBENCH_TEST") == "serve" {
		burst, err := strconv.Atoi(os.Args[2])
		if err != nil {
			panic(err)
		}
		panic(http.ListenAndServe(os.Args[1], firstOnly(burst)))
	}
	os.Exit(m.Run())
}

// command is the part of the program that this package starts.
func command(args []string) error {
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	if args[0] == GeneratorCommand {
		return (&Generator{Load: args[1], Server: n}).Run()
	}
	return (&Bare{Upstream: args[1], Status: n, Listen: args[3]}).Run()
}

func firstOnly(burst int) http.Handler {
	var mu sync.Mutex
	seen := map[string]int{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		mu.Lock()
		defer mu.Unlock()
		if seen[host]++; seen[host] > burst {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
}

func self(t *testing.T) Server {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s, err := Command("test=env HTTPBENCH_TEST=serve " + path + " {{.Addr}} {{.Burst}}")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRun(t *testing.T) {
	var told []string
	results, err := Run(t.Context(), Options{
		Servers: []Server{self(t)}, Clients: 4, Rounds: 2, Requests: 100, Rate: 400, Duration: time.Second,
		Rule:     oracle.Rule{Rate: fastlimit.Rate{N: 10, Per: time.Second}, Burst: 20},
		Progress: func(done, total int, what string) { told = append(told, fmt.Sprint(done, "/", total, " ", what)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 3 || len(told) != 4 {
		t.Fatalf("%d results, told %q: want 3 results and 4 steps", len(results), told)
	}
	allowed, hot, flood := results[0], results[1], results[2]
	for _, r := range results {
		if r.Group != "http" || r.Limiter != "test" || *r.CPUMicros <= 0 || *r.RSSBytes <= 0 {
			t.Errorf("%s: CPU %v µs, RSS %v", r.Workload, *r.CPUMicros, *r.RSSBytes)
		}
	}
	if allowed.Requests < 200 || allowed.Requests > 2*(100+4) || *allowed.Denied != 0 || *allowed.PerSecond <= 0 {
		t.Errorf("all allowed: %d requests, share %v denied", allowed.Requests, *allowed.Denied)
	}
	if *hot.Denied != 1 {
		t.Errorf("one denied hot key: share %v denied after the warm-up, want all", *hot.Denied)
	}
	// Of the 400 requests of four clients and the 5 of a bystander. The probe
	// comes from 127.0.0.1, nobody's address but its own. A bucket would leak:
	// what was admitted explains few of the denials, what was sent most.
	if want := 1 - (4*20+5)/405.0; flood.Requests != 405 || *flood.Denied != want {
		t.Errorf("flood: share %v of %d denied: want %v of 405", *flood.Denied, flood.Requests, want)
	}
	// How much leaks, and who conforms, depends on how punctual the load is.
	if *flood.DeniedExactly <= 0 || *flood.DeniedExactly >= *flood.Denied || *flood.FalseDenials < 30 || 2**flood.ConformingDenied > *flood.FalseDenials || *flood.Excess != 0 {
		t.Errorf("flood: share %v denied exactly, %d false denials, %d of conforming clients, excess %v",
			*flood.DeniedExactly, *flood.FalseDenials, *flood.ConformingDenied, *flood.Excess)
	}
	for _, r := range results {
		if want := r.Workload == "flood"; len(r.Series["latency_us"]) == 0 || (r.Series["shed"] != nil) != want {
			t.Errorf("%s: series %v", r.Workload, r.Series)
		}
	}
	for _, p := range []string{"p50", "p90", "p99", "p99.9", "max"} {
		if flood.LatencyMicros[p] <= 0 {
			t.Errorf("flood: %s is %v µs", p, flood.LatencyMicros[p])
		}
	}
	if len(flood.Series["shed"]) != 4 {
		t.Errorf("shed share at %d times, want 4", len(flood.Series["shed"]))
	}
}

// Each client is judged by an oracle of its own, within the span of an answer.
func TestJudges(t *testing.T) {
	t.Parallel()
	const s = time.Second
	j, err := newJudges(oracle.Rule{Rate: fastlimit.Rate{N: 1, Per: s}, Burst: 1}, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct {
		client         int
		sent, answered time.Duration
		status         int
		want           oracle.Verdict
	}{
		{0, 0, 0, 200, oracle.Verdict{Requests: 1}},
		{1, 0, 0, 429, oracle.Verdict{Requests: 2, Denied: 1, FalseDenials: 1, ConformingDenied: 1}},
		{0, 0, s, 200, oracle.Verdict{Requests: 3, Denied: 1, FalseDenials: 1, ConformingDenied: 1, DeniedExactly: 1}}, // at 1 s, for all that is known
		{0, s, s, 200, oracle.Verdict{Requests: 4, Denied: 1, FalseDenials: 1, ConformingDenied: 1, DeniedExactly: 1, Excess: 1}},
		{1, 10 * s, 10 * s, 0, oracle.Verdict{Requests: 4, Denied: 1, FalseDenials: 1, ConformingDenied: 1, DeniedExactly: 1, Excess: 1}},
		{1, 10 * s, 10 * s, 503, oracle.Verdict{Requests: 5, Denied: 2, FalseDenials: 1, ConformingDenied: 1, DeniedExactly: 1, Excess: 1}}, // the lost one may have had it
	} {
		j.judge(r.client, r.sent, r.answered, r.status)
		if got := j.verdict(); got != r.want {
			t.Errorf("client %d at %v: %+v, want %+v", r.client, r.sent, got, r.want)
		}
	}
}

func TestRunLeavesNothingBehind(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := Run(ctx, Options{Servers: []Server{self(t)}, Rounds: 1 << 20}); err == nil {
		t.Error("no error of a run that was interrupted")
	}
	left, err := os.ReadDir(os.TempDir())
	if err != nil || len(left) > 0 {
		t.Errorf("left in the temporary folder: %v, %v", left, err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	missing, err := Command("ghost=no-such-limiter {{.Addr}}")
	if err != nil {
		t.Fatal(err)
	}
	if err := (Options{Servers: []Server{missing}}).Check(); err == nil || !strings.Contains(err.Error(), `ghost: no program "no-such-limiter"`) {
		t.Errorf("error %v, want one that names server and program", err)
	}
	if missing.Version(t.Context()) != "" {
		t.Error("a version of what is not there")
	}
}

// A path that is given is taken, and not looked for elsewhere.
func TestAt(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/nope", "/nginx", "./nginx"} {
		if found, err := Nginx().At(path).Find(); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: found %q, error %v", path, found, err)
		}
	}
	if found, err := HAProxy().At("/bin/sh").Find(); err != nil || found != "/bin/sh" {
		t.Errorf("%q, %v", found, err)
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "x", "x=", "=y {{.Addr}}", "x=y", "x=y {{.Addr}} {{.Nope}}", "x=y {{.Addr}} {{"} {
		if _, err := Command(bad); err == nil {
			t.Errorf("%q accepted", bad)
		}
	}
}

// The configurations hold the rule, with nginx's burst one less and HAProxy's
// window as long as the burst lasts at the rate.
func TestTemplates(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"nginx.conf":     {"listen 127.0.0.1:99;", "rate=100r/s;", "burst=199 nodelay;", "pid DIR/nginx.pid;"},
		"fastlimit.yaml": {"listen: 127.0.0.1:99\n", "admin: 127.0.0.1:98\n", "rate: 100/s, burst: 200"},
		"haproxy.cfg":    {"bind 127.0.0.1:99\n", "http_req_rate(2000ms)", "gt 200 }"},
	} {
		dir := t.TempDir()
		s := Server{config: name}
		set := settings{Addr: "127.0.0.1:99", Admin: "127.0.0.1:98", Rate: "100/s", MaxConns: 4096, Dir: dir, PerSecond: 100, Burst: 200, Excess: 199, WindowMS: 2000}
		if err := s.configure(set); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "config"))
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if w = strings.ReplaceAll(w, "DIR", dir); !strings.Contains(string(text), w) {
				t.Errorf("%s lacks %q:\n%s", name, w, text)
			}
		}
		if regexp.MustCompile(`{{|<no value>`).Match(text) {
			t.Errorf("%s is not filled in:\n%s", name, text)
		}
	}
}

// The peers take their configuration and keep the rule.
func TestPeers(t *testing.T) {
	for _, s := range []Server{Nginx(), TunedNginx(), HAProxy()} {
		if _, err := s.Find(); err != nil {
			t.Errorf("%v (Debian: sudo apt-get install nginx-light haproxy)", err)
			continue
		}
		r, err := s.start(t.Context(), site{rule: oracle.Rule{Rate: fastlimit.Rate{N: 1, Per: time.Second}, Burst: 20}, dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.child.Stop)
		loop, err := load.DialClosed(t.Context(), r.target, 2, load.Loopback(1))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		counts, err := loop.Run(t.Context(), 200)
		loop.Close()
		most := 20 + int64(time.Since(start).Seconds()) // whole seconds let one more through each
		if n := counts.Status(200); err != nil || n < 20 || n > most || counts.Status(429) != 200-n {
			t.Errorf("%s: %d times 200, %d times 429, %v: want 20 to %d and the rest", s.Name, n, counts.Status(429), err, most)
		}
		if !regexp.MustCompile(`^\d+\.\d+`).MatchString(s.Version(t.Context())) {
			t.Errorf("%s: version %q", s.Name, s.Version(t.Context()))
		}
		if cpu, err := r.child.CPU(); err != nil || cpu <= 0 {
			t.Errorf("%s: CPU time %v, %v", s.Name, cpu, err)
		}
	}
}

func TestRunTarget(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(firstOnly(10))
	t.Cleanup(server.Close)
	o := TargetOptions{URL: server.URL, Options: Options{Rate: 200, Duration: 500 * time.Millisecond, Requests: 100, Clients: 4}}
	if err := o.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	open, err := RunTarget(t.Context(), o)
	if err != nil || len(open) != 1 || open[0].Requests != 100 || *open[0].Denied != 0.6 {
		t.Fatalf("open: %+v, %v", open, err)
	}
	o.Closed = true
	closed, err := RunTarget(t.Context(), o)
	if err != nil || len(closed) != 1 || closed[0].Requests != 100 || *closed[0].Denied != 1 {
		t.Fatalf("closed: %+v, %v", closed, err)
	}
}

func TestTargetCheck(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	for _, c := range []struct {
		o    TargetOptions
		want string
	}{
		{TargetOptions{URL: server.URL, Options: Options{Rate: 1, Duration: time.Second, Clients: 1}}, "404"},
		{TargetOptions{URL: server.URL, Options: Options{Rate: -1, Duration: time.Second, Clients: 1}}, "rate -1"},
		{TargetOptions{URL: "nonsense"}, "nonsense"},
	} {
		if err := c.o.Check(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}
