package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/fastlimit/fastlimit/internal/cli"
)

// clientFrom is an HTTP client with a source address of its own.
func clientFrom(t *testing.T, addr string) *http.Client {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}}
	tr := &http.Transport{DialContext: d.DialContext}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func get(t *testing.T, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// A flood from one client is shed with every header of the contract, and a
// second client within its limit gets 200 for every request.
func TestFloodAndNeighbour(t *testing.T) {
	t.Parallel()
	p := serve(t, "--rate", "10/m", "--burst", "20")
	url := "http://" + p.listen + "/"
	flood, neighbour := clientFrom(t, "127.0.0.1"), clientFrom(t, "127.0.0.2")
	const n, each = 1000, 50 // the neighbour asks n/each = 20 times: its burst
	allowed := 0
	var denial *http.Response
	var body string
	for i := range n {
		resp, text := get(t, flood, url)
		switch resp.StatusCode {
		case http.StatusOK:
			allowed++
			if text != "" {
				t.Errorf("an admitted request has the body %q", text)
			}
		case http.StatusTooManyRequests:
			denial, body = resp, text
		default:
			t.Fatalf("status %d", resp.StatusCode)
		}
		if i%each == 0 {
			if resp, _ := get(t, neighbour, url); resp.StatusCode != http.StatusOK {
				t.Errorf("request %d of the neighbour: status %d", i/each, resp.StatusCode)
			}
		}
	}
	// P2: 31 at once. What leaks while the test runs is left room for: an hour
	// would be 600.
	if allowed < 20 || allowed > 331 {
		t.Errorf("%d requests of the flood admitted, want 31 and 10/m", allowed)
	}
	if denial == nil {
		t.Fatal("nothing was denied")
	}
	checkDenial(t, denial, body)
}

var denialFields = map[string]string{
	"Retry-After":           `^[1-9][0-9]*$`,
	"RateLimit-Policy":      `^"per-ip";q=20;w=120$`,
	"RateLimit":             `^"per-ip";r=0;t=[0-9]+$`,
	"X-RateLimit-Remaining": `^0$`,
	"X-RateLimit-Clear":     `^[0-9]+\.[0-9]{3}$`,
	"X-RateLimit-Reset":     `^[0-9]+\.[0-9]{3}$`,
	"Content-Type":          `^application/problem\+json$`,
}

func checkDenial(t *testing.T, resp *http.Response, body string) {
	t.Helper()
	for name, want := range denialFields {
		if got := resp.Header.Values(name); len(got) != 1 || !regexp.MustCompile(want).MatchString(got[0]) {
			t.Errorf("%s: %q, want one that matches %s", name, got, want)
		}
	}
	reset, err1 := strconv.ParseFloat(resp.Header.Get("X-RateLimit-Reset"), 64)
	retry, err2 := strconv.ParseFloat(resp.Header.Get("Retry-After"), 64)
	if err1 != nil || err2 != nil || retry < reset || reset > 6 {
		t.Errorf("Retry-After %v, X-RateLimit-Reset %v: want at most the 6 s of one request, and the former not below", retry, reset)
	}
	var problem struct {
		Type   string
		Status int
	}
	if err := json.Unmarshal([]byte(body), &problem); err != nil || problem.Status != 429 || !strings.HasSuffix(problem.Type, "#quota-exceeded") {
		t.Errorf("body %s: %v", body, err)
	}
}

func TestStartLine(t *testing.T) {
	t.Parallel()
	p := serve(t, "--rate", "10/m", "--burst", "20")
	p.mu.Lock()
	line := p.log.String()
	p.mu.Unlock()
	if want := `rules.per-ip="10/m burst 20 enforce; a client gets at most 31 at once, then 10/m"`; !strings.Contains(line, want) {
		t.Errorf("start line %s\nlacks %s", line, want)
	}
	var info struct {
		Listen []struct{ Address string }
		Admin  string
	}
	_, body := get(t, http.DefaultClient, "http://"+p.admin+"/v1/info")
	if err := json.Unmarshal([]byte(body), &info); err != nil || len(info.Listen) != 1 || info.Listen[0].Address != p.listen || info.Admin != p.admin {
		t.Errorf("/v1/info %s, %v; want %s and %s", body, err, p.listen, p.admin)
	}
}

func TestJSONLog(t *testing.T) {
	t.Parallel()
	code, _, stderr := command(t, nil, "serve", "--log-format", "xml")
	if code != cli.ExitUsage || !strings.Contains(stderr, "log-format") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// SIGTERM turns readiness off, lets a request in flight finish and exits 0.
func TestDrain(t *testing.T) {
	t.Parallel()
	p := serve(t)
	slow, err := net.Dial("tcp", p.listen)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	if resp, _ := get(t, http.DefaultClient, "http://"+p.admin+"/readyz"); resp.StatusCode != http.StatusOK {
		t.Fatalf("/readyz %d before the drain", resp.StatusCode)
	}
	// Half a request, and a whole one on a second connection to know that the
	// server has seen the first.
	fmt.Fprintf(slow, "GET / HTTP/1.1\r\nHost: a\r\n")
	get(t, clientFrom(t, "127.0.0.2"), "http://"+p.listen+"/")
	p.signal(syscall.SIGTERM)
	p.waitLog("stopping")
	p.waitLog("draining")
	if resp, _ := get(t, http.DefaultClient, "http://"+p.admin+"/readyz"); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("/readyz %d in the drain", resp.StatusCode)
	}
	fmt.Fprintf(slow, "\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(slow), nil)
	if err != nil {
		t.Fatalf("the request in flight: %v", err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the request in flight: status %d", resp.StatusCode)
	}
	if code := p.wait(); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// The second signal ends a drain that has not ended by itself.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	p := serve(t, "--drain-delay", "1h")
	p.signal(syscall.SIGINT)
	p.waitLog("stopping")
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 128+15 {
		t.Errorf("exit %d", code)
	}
}

func TestHangupKeepsServing(t *testing.T) {
	t.Parallel()
	p := serve(t)
	p.signal(syscall.SIGHUP)
	p.waitLog("there is no configuration file to read again")
	if resp, _ := get(t, http.DefaultClient, "http://"+p.listen+"/"); resp.StatusCode != http.StatusOK {
		t.Errorf("status %d after SIGHUP", resp.StatusCode)
	}
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		t.Errorf("exit %d", code)
	}
}

func TestFileAndFlags(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "c.yaml", `
listen: [{address: "127.0.0.1:1", deny_status: 403}]
deny_status: 418
trusted_proxies: [127.0.0.0/8]
rules:
  - {name: one, key: ip, rate: 1/h, burst: 1, strict: true}
`)
	p := serve(t, "-c", file) // --listen replaces the port that nobody may take
	c := clientFrom(t, "127.0.0.1")
	for i, want := range []int{200, 418} {
		if resp, _ := get(t, c, "http://"+p.listen+"/"); resp.StatusCode != want {
			t.Errorf("request %d: status %d, want %d", i, resp.StatusCode, want)
		}
	}
}

func TestServeFails(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() }) // after the parallel subtests
	bad := writeFile(t, "bad.yaml", "listen: 127.0.0.1:0\nlisten_on: x\nrules:\n  - {name: a, key: ip, rate: fast}\n")
	good := writeFile(t, "good.yaml", "rules:\n  - {name: a, key: ip, rate: 1/s}\n")
	for _, tt := range []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"port in use", []string{"--listen", taken.Addr().String(), "--admin", "127.0.0.1:0"}, cli.ExitFailure, []string{taken.Addr().String(), "in use"}},
		{"bad file", []string{"-c", bad}, cli.ExitFailure, []string{bad + ":2:1: listen_on: ", bad + ":4:"}},
		{"no file", []string{"-c", "/does/not/exist"}, cli.ExitFailure, []string{"/does/not/exist", "no such file"}},
		{"rate beside a file", []string{"-c", good, "--rate", "1/s"}, cli.ExitUsage, []string{"--rate"}},
		{"burst beside a file", []string{"-c", good, "--burst", "3"}, cli.ExitUsage, []string{"--burst"}},
		{"upstream", []string{"--upstream", "http://127.0.0.1:3000/app"}, cli.ExitUsage, []string{"--upstream URL: has the path", "remove it"}},
		{"itself as upstream", []string{"--upstream", "http://localhost:8080"}, cli.ExitUsage, []string{"is the listener 127.0.0.1:8080: requests would loop"}},
		{"redis", []string{"--redis", "http://:secret@127.0.0.1"}, cli.ExitUsage, []string{"--redis", "rediss://"}},
		{"bad rate", []string{"--rate", "many"}, cli.ExitUsage, []string{"many", "100/s"}},
		{"bad address", []string{"--listen", "nowhere"}, cli.ExitUsage, []string{"nowhere"}},
		{"unknown flag", []string{"--listn", "x"}, cli.ExitUsage, []string{"--listn"}},
		{"negative delay", []string{"--drain-delay=-1s"}, cli.ExitUsage, []string{"--drain-delay"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := command(t, nil, append([]string{"serve"}, tt.args...)...)
			if code != tt.code || stdout != "" {
				t.Errorf("exit %d, want %d; stdout %q", code, tt.code, stdout)
			}
			for _, want := range tt.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("stderr lacks %q:\n%s", want, stderr)
				}
			}
		})
	}
}
