package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// rss is the resident memory of the process in MiB.
func (p *process) rss() int {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		p.t.Fatal(err)
	}
	return kib >> 10
}

const request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

// More connections of one address than may be open, all denied but one, which stay open as
// long as they are let: a neighbour gets 200 each time, on new connections and on the
// one that it keeps. By default the address is held to its bound; without that
// the bound on all makes room.
func TestIdleConnectionsOfOneAddress(t *testing.T) {
	severalPrograms(t)
	most := testkit.Size(1500, 16384)
	for name, c := range map[string]struct {
		settings string
		each     int // of four processes
	}{
		"by default": {"", 500},
		"unbounded":  {fmt.Sprintf("connections: {max: %d, max_per_client: 1000000}\n", most), testkit.Size(500, 5000)},
	} {
		t.Run(name, func(t *testing.T) {
			p := serve(t, "-c", writeFile(t, "c.yaml", c.settings+`rules: [{name: a, rate: 1/h, burst: 1, strict: true, key: ip, match: {path: /}}, {name: b, rate: 1000000/s}]
`))
			kept, err := net.Dial("tcp", p.listen)
			if err != nil {
				t.Fatal(err)
			}
			defer kept.Close()
			reader := bufio.NewReader(kept)
			newcomer := clientFrom(t, "127.0.0.2")
			newcomer.Transport.(*http.Transport).DisableKeepAlives = true
			neighbour := func() {
				t.Helper()
				if resp, _ := get(t, newcomer, "http://"+p.listen+"/b"); resp.StatusCode != http.StatusOK {
					t.Fatalf("the neighbour got %d", resp.StatusCode)
				}
				io.WriteString(kept, "GET /b HTTP/1.1\r\nHost: a\r\n\r\n")
				resp, err := http.ReadResponse(reader, nil)
				if err != nil || resp.StatusCode != http.StatusOK {
					t.Fatalf("the neighbour on the connection that it keeps: %v, %v", resp, err)
				}
				resp.Body.Close()
			}
			const processes = 4
			var all []func()
			for range processes {
				all = append(all, startHold(t, p.listen, "127.0.0.3", c.each, request))
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				for _, holding := range all {
					holding()
				}
			}()
			asked := 0
			for wait := true; wait; asked++ {
				neighbour()
				select {
				case <-done:
					wait = false
				case <-time.After(5 * time.Millisecond): // or there is no CPU time for the others
				}
			}
			for range 100 {
				neighbour()
			}
			open := p.open(t)
			byClient, full := int(p.metric(t, `fastlimit_connections_dismissed_total{reason="client"}`)), int(p.metric(t, `fastlimit_connections_dismissed_total{reason="full"}`))
			denied := int(p.metric(t, `fastlimit_connections_dismissed_total{reason="denied"}`))
			t.Logf("%d times the neighbour; %d open; dismissed %d, %d, %d; %d MiB", asked+100, open, byClient, full, denied, p.rss())
			if c.settings == "" && (open > 1100 || byClient < processes*c.each-1100) || c.settings != "" && (open > most || full+denied < processes*c.each-most) {
				t.Errorf("%d open, dismissed %d for the client, %d for all, %d after a denial", open, byClient, full, denied)
			}
			if n := int(p.metric(t, `fastlimit_connections_rejected_total{reason="full"}`)) + int(p.metric(t, `fastlimit_connections_rejected_total{reason="client"}`)); n != 0 {
				t.Errorf("%d newcomers were refused", n)
			}
		})
	}
}

// Uploads that stall hold little: neither those whose body never begins, nor
// those in the middle of it, with a length, in chunks, or after a long head.
func TestStalledUploadsHoldLittle(t *testing.T) {
	severalPrograms(t)
	const length = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 65536\r\n\r\n"
	for name, c := range map[string]struct {
		n    int
		text string
	}{
		"no byte of it": {1000, length},
		"half of it":    {8000, length + strings.Repeat("x", 32<<10)},
		"in chunks":     {1000, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n10000\r\n" + strings.Repeat("x", 32<<10)},
		"a long head":   {2000, "POST / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 20<<10)}, // 1024 are kept
	} {
		t.Run(name, func(t *testing.T) {
			p := serve(t, "-c", writeFile(t, "c.yaml", "connections: {header_timeout: 5m}\nrules: [{name: a, rate: 1000000/s}]\n"))
			before := p.rss()
			startHold(t, p.listen, "127.0.0.3+", c.n, c.text)()
			var open int
			for range 3000 {
				if open = p.open(t); open >= min(c.n, 1024) {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(300 * time.Millisecond) // what was sent is read
			rss := p.rss()
			t.Logf("%d open, %d MiB before, %d MiB now, %.1f KiB each", open, before, rss, float64(rss-before)*1024/float64(open))
			if most := 20 + before + open*20/1024; c.n < 2000 && rss > most {
				t.Errorf("%d stalled uploads take %d MiB, want at most %d", open, rss, most)
			}
			if rss >= 200 {
				t.Errorf("%d stalled uploads take %d MiB", open, rss)
			}
		})
	}
}

// A connection that waits for its next request holds no buffer, not even after a burst of
// pipelined ones, and after some ticks no stack. In fasthttp's hands, where a request with a body
// has put it, it holds both.
func TestIdleConnectionsHoldLittle(t *testing.T) {
	severalPrograms(t)
	const processes = 4
	for name, c := range map[string]struct {
		text string
		each int
		most float64 // KiB
	}{
		"one request": {request, testkit.Size(1100, 2500), 3},
		"a burst":     {strings.Repeat(request, 200), testkit.Size(1100, 2500), 3},
		"a body":      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi", testkit.Size(600, 1250), 21},
	} {
		if testing.Short() && name != "a burst" {
			continue // make test has all
		}
		t.Run(name, func(t *testing.T) {
			file := writeFile(t, "c.yaml", "connections: {max_per_client: 1000000, header_timeout: 400ms, idle_timeout: 10m}\nrules: [{name: a, rate: 1000000/s}]\n")
			cmd := exec.Command(binary, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "-c", file)
			cmd.Env = append(os.Environ(), "GODEBUG=gctrace=1")
			p := start(t, cmd)
			startHold(t, p.listen, "127.0.0.2", 100, c.text)()
			before := p.rss()
			for i := range processes {
				startHold(t, p.listen, fmt.Sprintf("127.0.0.%d", 3+i), c.each, c.text)()
			}
			if c.most < 10 { // they park
				p.waitLog("(forced)") // in minutes Go would return their stacks on its own
			}
			var rss int
			var perConn float64
			for end := time.Now().Add(hang); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				rss = p.rss() // and nothing of /metrics, which makes garbage
				if perConn = float64(rss-before) * 1024 / float64(processes*c.each); perConn <= c.most {
					break
				}
			}
			open := p.open(t)
			t.Logf("%d open, %d MiB before, %d MiB now, %.1f KiB each", open, before, rss, perConn)
			if open < processes*c.each || perConn > c.most {
				t.Errorf("%d connections take %.1f KiB each, want at most %.1f", open, perConn, c.most)
			}
		})
	}
}

// Whoever read the log goes away: the server goes on, and counts what it could
// not write.
func TestLogReaderGoesAway(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--rate", "1/h", "--burst", "1")
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	var addrs, log []string
	for lines := bufio.NewScanner(r); addrs == nil; log = append(log, lines.Text()) {
		if !lines.Scan() {
			t.Fatalf("no start line in %q", log)
		}
		addrs = startLine.FindStringSubmatch(lines.Text())
	}
	r.Close()
	p := &process{t: t, cmd: cmd, listen: addrs[1], admin: addrs[2]}
	for range 20 { // bad requests and denials, which are logged
		c, err := net.Dial("tcp", p.listen)
		if err != nil {
			t.Fatalf("it has ended: %v", err)
		}
		io.WriteString(c, "nonsense\r\n\r\n")
		io.Copy(io.Discard, c)
		c.Close()
		get(t, http.DefaultClient, "http://"+p.listen+"/")
	}
	if resp, _ := get(t, clientFrom(t, "127.0.0.2"), "http://"+p.listen+"/"); resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
	// The lines of a second are written when it is over.
	for end := time.Now().Add(hang); p.metric(t, "fastlimit_log_lines_lost_total") == 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no lost line is counted")
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("at the end: %v", err)
	}
}

// The bound fits under the limit of open files, with a warning; and is held:
// more clients than that are all served.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	p := start(t, exec.Command("sh", "-c", `ulimit -n 400; exec "$@"`, "sh", binary, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"))
	p.mu.Lock()
	log := p.log.String()
	p.mu.Unlock()
	if !strings.Contains(log, "connections.max is lowered") || !strings.Contains(log, "max=200 open_files=400") {
		t.Errorf("log:\n%s", log)
	}
	var info struct{ Connections struct{ Max int } }
	_, body := get(t, http.DefaultClient, "http://"+p.admin+"/v1/info")
	if err := json.Unmarshal([]byte(body), &info); err != nil || info.Connections.Max != 200 {
		t.Errorf("/v1/info: %v %s", err, body)
	}
	for i := range 700 {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(i%200+1))}}
		c, err := d.DialContext(t.Context(), "tcp", p.listen)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, request)
		if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("client %d: %v %v", i, resp, err)
		}
	}
	if n := int(p.metric(t, "fastlimit_accept_errors_total")); n != 0 {
		t.Errorf("%d times out of descriptors", n)
	}
}
