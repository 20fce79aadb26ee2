package planetest

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// node is the id that Envoy Gateway gives to its rate limit service.
const node = "envoy-ratelimit"

// program is a running "fastlimit rls". Its methods are for the goroutine of the test.
type program struct {
	t       *testing.T
	cmd     *exec.Cmd
	log     testkit.Log
	lines   chan string
	grpc    string
	metrics string
}

// startUp returns a program that serves by the limits of a plane.
func startUp(t *testing.T, server string, env ...string) *program {
	t.Helper()
	p := &program{t: t, cmd: command(), lines: make(chan string, 10_000)}
	p.cmd.Env = append([]string{ // Envoy Gateway's, but for the addresses
		"RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_IGNOREDOTFILES=true", "RUNTIME_WATCH_ROOT=false", "LOG_LEVEL=info",
		"USE_STATSD=false", "CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL=" + server, "CONFIG_GRPC_XDS_NODE_ID=" + node,
		"GRPC_SERVER_USE_TLS=false", "GRPC_SERVER_TLS_CA_CERT=/certs/ca.crt", "CONFIG_GRPC_XDS_SERVER_USE_TLS=false", "FORCE_START_WITHOUT_INITIAL_CONFIG=true",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redisFor(t), "USE_PROMETHEUS=true", "PROMETHEUS_ADDR=127.0.0.1:0", "PROMETHEUS_MAPPER_YAML=/etc/statsd-exporter/conf.yaml",
		"HOST=127.0.0.1", "PORT=0", "GRPC_HOST=127.0.0.1", "GRPC_PORT=0", "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=0",
		"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL=50ms", "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL=50ms",
		"FASTLIMIT_STORE_TIMEOUT=2s", // tests that count need every answer of Redis
	}, env...)
	stderr, err := p.cmd.StderrPipe()
	must(t, err)
	must(t, p.cmd.Start())
	go p.read(stderr)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		for range p.lines {      // until the log has ended
		}
		_ = p.cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("its log:\n%s", p.log.String())
		}
	})
	found := serving.FindStringSubmatch(p.waitLog("fastlimit rls is serving"))
	if found == nil {
		t.Fatal("no addresses in the line that says it serves")
	}
	p.grpc, p.metrics = found[1], found[2]
	return p
}

var serving = regexp.MustCompile(`grpc=(\S+) .*metrics=(\S+)`)

func (p *program) read(stderr io.Reader) {
	defer close(p.lines)
	for s := bufio.NewScanner(stderr); s.Scan(); {
		fmt.Fprintln(&p.log, s.Text())
		p.lines <- s.Text()
	}
}

// waitLog returns the next line of the log that holds a text.
func (p *program) waitLog(text string) string {
	p.t.Helper()
	late := time.After(time.Until(testkit.Deadline(p.t)))
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("it ended and never logged %q", text)
			}
			if strings.Contains(line, text) {
				return line
			}
		case <-late:
			p.t.Fatalf("it never logged %q", text)
		}
	}
}

// memory is a line of the kernel's account of the process, such as VmRSS, in MiB.
func (p *program) memory(name string) float64 {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	must(p.t, err)
	return number(p.t, string(text), name+`:\s+(\d+) kB`) / 1024
}

// metric is what a metric without labels counts.
func (p *program) metric(name string) float64 {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://"+p.metrics+"/metrics", http.NoBody)
	must(p.t, err)
	resp, err := http.DefaultClient.Do(req)
	must(p.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(p.t, err)
	return number(p.t, string(text), name+` (\S+)`)
}

// number is what a line of a text has in the place of the parentheses.
func number(t *testing.T, text, line string) float64 {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + line + `$`).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("no line %q", line)
	}
	n, err := strconv.ParseFloat(found[1], 64)
	must(t, err)
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
