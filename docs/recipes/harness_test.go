package recipes_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/product"
)

// hang bounds waits that only a bug makes long.
const hang = 2 * time.Minute

// binary is fastlimit as users build it.
var binary string

func TestMain(m *testing.M) { os.Exit(product.Run(m, &binary)) }

// app is the application behind the front.
type app struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string // method, path, body, X-Api-Key, X-Forwarded-For and host of each request; guarded by mu
}

func startApp(t *testing.T) *app {
	t.Helper()
	a := new(app)
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // an upload that never ended
		}
		a.mu.Lock()
		a.seen = append(a.seen, fmt.Sprintf("%s %s %s %q %q %s", r.Method, r.URL.Path, body, r.Header["X-Api-Key"], r.Header["X-Forwarded-For"], r.Host))
		a.mu.Unlock()
		w.Header().Set("Cache-Control", "no-store") // for Varnish
		if r.URL.Path == "/crash" {
			panic(http.ErrAbortHandler)
		}
		if r.URL.Path == "/hang" {
			<-r.Context().Done()
		}
		fmt.Fprint(w, "app")
	}))
	t.Cleanup(a.Close)
	return a
}

// requests returns those that a prefix matches.
func (a *app) requests(prefix string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var found []string
	for _, s := range a.seen {
		if strings.HasPrefix(s, prefix) {
			found = append(found, s)
		}
	}
	return found
}

// limiter is a running fastlimit.
type limiter struct {
	t             *testing.T
	cmd           *exec.Cmd
	listen, admin string
}

var startLine = regexp.MustCompile(`listen=(\S+) admin=(\S+) `)

// startLimiter runs the binary with the settings that the recipe asks for.
func startLimiter(t *testing.T, config string) *limiter {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fastlimit.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	l := &limiter{t: t, cmd: exec.Command(binary, "serve", "-c", file, "--admin", "127.0.0.1:0")}
	stderr, err := l.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.kill)
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if m := startLine.FindStringSubmatch(lines.Text()); m != nil {
			l.listen, l.admin = m[1], m[2]
			go io.Copy(io.Discard, stderr)
			return l
		}
	}
	t.Fatal("fastlimit did not start")
	return nil
}

func (l *limiter) kill() {
	_ = l.cmd.Process.Kill() // it may have ended
	_ = l.cmd.Wait()
}

func (l *limiter) signal(s syscall.Signal) {
	l.t.Helper()
	if err := l.cmd.Process.Signal(s); err != nil {
		l.t.Fatal(err)
	}
}

// stop halts the process where it stands, and waits until it does.
func (l *limiter) stop() {
	l.t.Helper()
	l.signal(syscall.SIGSTOP)
	for end := time.Now().Add(hang); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", l.cmd.Process.Pid))
		if err != nil {
			l.t.Fatal(err)
		}
		if _, state, _ := strings.Cut(string(stat), ") "); strings.HasPrefix(state, "T") {
			return
		}
		if time.Now().After(end) {
			l.t.Fatal("fastlimit does not stop")
		}
	}
}

var allowedLine = regexp.MustCompile(`(?m)^fastlimit_requests_total\{decision="allow"\} (\d+)$`)

// allowed is the number of requests that were admitted, each of them charged.
func (l *limiter) allowed() int {
	l.t.Helper()
	resp, err := http.Get("http://" + l.admin + "/metrics")
	if err != nil {
		l.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	m := allowedLine.FindSubmatch(text)
	if m == nil {
		l.t.Fatal("no fastlimit_requests_total in /metrics")
	}
	n, err := strconv.Atoi(string(m[1]))
	if err != nil {
		l.t.Fatal(err)
	}
	return n
}

// waitAllowed waits until n requests have been admitted.
func (l *limiter) waitAllowed(n int) {
	l.t.Helper()
	l.waitFor(fmt.Sprint(n, " admissions"), func() bool { return l.allowed() >= n })
}

func (l *limiter) waitFor(what string, done func() bool) {
	l.t.Helper()
	for end := time.Now().Add(hang); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			l.t.Fatalf("no %s in %v", what, hang)
		}
	}
}

// runFront starts a web server on an address that is free, or was a moment ago:
// command makes what to run.
func runFront(t *testing.T, command func(addr string) *exec.Cmd) (addr string) {
	t.Helper()
	for range 5 {
		addr = testkit.FreeAddr(t)
		if tryFront(t, addr, command(addr)) {
			return addr
		}
	}
	t.Fatal("the web server does not start")
	return ""
}

// tryFront waits until the server listens, and reports false if it ends first.
func tryFront(t *testing.T, addr string, cmd *exec.Cmd) bool {
	t.Helper()
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended does not matter
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("%s:\n%s", cmd.Path, log.String())
		}
	})
	for end := time.Now().Add(hang); time.Now().Before(end); {
		select {
		case <-ended:
			return false
		case <-time.After(10 * time.Millisecond):
		}
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return true
		}
	}
	t.Fatalf("%s does not listen", cmd.Path)
	return false
}

// send writes raw bytes from a loopback address and returns the status of the
// answer, 0 if the connection ended without one, and its fields.
func send(t *testing.T, from, to, raw string) (int, http.Header) {
	t.Helper()
	c := dial(t, from, to)
	defer c.Close()
	if _, err := io.WriteString(c, raw); err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatal(err)
	}
	return answer(t, c)
}

func dial(t *testing.T, from, to string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(hang)); err != nil {
		t.Fatal(err)
	}
	return c
}

// answer reads one response, those before the final one left out.
func answer(t *testing.T, c net.Conn) (int, http.Header) {
	t.Helper()
	r := bufio.NewReader(c)
	for {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return 0, nil
		}
		_, _ = io.Copy(io.Discard, resp.Body) // of a connection that is given up
		resp.Body.Close()
		if resp.StatusCode >= 200 {
			return resp.StatusCode, resp.Header
		}
	}
}

func get(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: example.com\r\n\r\n" }
