package recipes_test

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

const upstream = "upstream: http://127.0.0.1:3000\n"

// proxied are the fronts that forward to fastlimit instead of asking it.
var proxied = []front{
	{
		name:     "nginx-proxy",
		proxied:  true,
		settings: "listen: 127.0.0.1:0\n" + upstream + trusted,
		away:     []int{502, 504},
		start:    startNginxProxy,
	},
	{
		name:     "caddy-proxy",
		proxied:  true,
		settings: "listen: 127.0.0.1:0\n" + upstream + trusted,
		away:     []int{502, 503},
		start:    startCaddyProxy,
	},
	{
		name:     "haproxy-proxy",
		proxied:  true,
		settings: "listen: [{address: \"127.0.0.1:0\", proxy_protocol: [127.0.0.1/32]}]\n" + upstream,
		away:     []int{0},
		start:    startHAProxyProxy,
	},
	{
		name:     "apache-proxy",
		proxied:  true,
		settings: "listen: 127.0.0.1:0\n" + upstream + trusted,
		away:     []int{502, 503, 504},
		refuses:  []string{"unknown encoding"}, // with 500
		spools:   true,
		hangs:    true,
		start:    startApacheProxy,
	},
	{
		name:     "varnish",
		proxied:  true,
		settings: "listen: 127.0.0.1:0\n" + upstream + trusted,
		away:     []int{503},
		refuses:  []string{"trailer"}, // with 503
		spools:   true,
		start:    startVarnish,
	},
}

func startNginxProxy(t *testing.T, o options) string {
	t.Helper()
	var edits []string
	if o.closed {
		edits = append(edits, "    server 127.0.0.1:3000 backup;", "#")
	}
	if o.inTime {
		edits = append(edits, "proxy_read_timeout 60s", "proxy_read_timeout 1s")
	}
	return runNginx(t, "nginx-proxy.conf", &o, edits)
}

func startCaddyProxy(t *testing.T, o options) string {
	t.Helper()
	return runCaddy(t, "Caddyfile.proxy", &o, "http://:8000 {\n", "{\n\tadmin off\n}\nhttp://:8000 {\n\tbind 127.0.0.1\n",
		"health_port 8081", "health_port "+portOf(t, o.admin), "health_interval 1s", "health_interval 100ms")
}

func startHAProxyProxy(t *testing.T, o options) string {
	t.Helper()
	edits := []string{"port 8081", "port " + portOf(t, o.admin), "inter 1s", "inter 100ms"}
	if o.closed {
		edits = append(edits, "    server app", "    # server app")
	}
	program, dir := find(t, "haproxy", "haproxy"), t.TempDir()
	return runFront(t, func(addr string) *exec.Cmd {
		return exec.Command(program, "-db", "-f", write(t, dir, recipe(t, "haproxy-proxy.cfg", addr, &o, edits...)))
	})
}

func startApacheProxy(t *testing.T, o options) string {
	t.Helper()
	var edits []string
	if o.closed {
		edits = append(edits, `    BalancerMember "http://127.0.0.1:3000"`, "#")
	}
	if o.inTime {
		edits = append(edits, "ProxyTimeout 60", "ProxyTimeout 1", "hcinterval=1", "hcinterval=100ms")
	}
	modules := []string{"mpm_event", "authz_core", "headers", "proxy", "proxy_http", "slotmem_shm", "proxy_balancer", "lbmethod_byrequests", "proxy_hcheck"}
	return runApache(t, "apache-proxy.conf", o, modules, func(string) []string { return edits })
}

func startVarnish(t *testing.T, o options) string {
	t.Helper()
	edits := []string{".interval = 1s", ".interval = 0.1s"}
	for _, backend := range [][2]string{{"8080", o.limiter}, {"8081", o.admin}, {"3000", o.app}} {
		edits = append(edits, `.port = "`+backend[0], `.port = "`+portOf(t, backend[1]))
	}
	if o.closed {
		edits = append(edits, "# To fail closed: ", "")
	}
	program, dir := find(t, "varnishd", "varnish"), t.TempDir()
	vcl := write(t, dir, edited(t, "varnish.vcl", edits...))
	return runFront(t, func(addr string) *exec.Cmd {
		return exec.Command(program, "-F", "-j", "none", "-n", dir, "-a", addr, "-f", vcl, "-p", "backend_idle_timeout=30", "-s", "default,16m")
	})
}

func portOf(t *testing.T, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TestProxyAway stops fastlimit where it stands, lets it go on, and kills it. What the
// server does then it may do only once it has noticed.
func TestProxyAway(t *testing.T) {
	eachFront(t, isProxied, func(t *testing.T, f *front) {
		for _, closed := range []bool{false, true} {
			t.Run(fmt.Sprint("closed=", closed), func(t *testing.T) {
				t.Parallel()
				testProxyAway(t, f, closed)
			})
		}
	})
}

func testProxyAway(t *testing.T, f *front, closed bool) {
	t.Helper()
	app, l, addr := f.up(t, strict, options{closed: closed, inTime: true})
	want, wantStopped := []int{200}, []int{200}
	if closed {
		want = f.away
	}
	if closed || f.hangs {
		wantStopped = f.away
	}
	asked := 0
	gets := func(want ...int) func() bool {
		return func() bool {
			asked++ // Varnish does not ask twice at once for one path
			return slices.Contains(want, sendFor(t, 3*time.Second, "127.0.0.1", addr, get("/"+strconv.Itoa(asked))))
		}
	}
	l.waitFor("denial", gets(429))
	if !closed {
		for name, raw := range map[string]string{"slow": get("/hang"), "failing": get("/crash"), "refused": odd["unknown encoding"]} {
			sendFor(t, 3*time.Second, "127.0.0.2", addr, raw)
			if status, _ := send(t, "127.0.0.1", addr, get("/"+name)); status != 429 {
				t.Errorf("after a request that is %s, fastlimit is not asked: got %d", name, status)
			}
		}
	}
	l.stop()
	l.waitFor(fmt.Sprint("what a stopped fastlimit leads to: ", wantStopped), gets(wantStopped...))
	l.signal(syscall.SIGCONT)
	l.waitFor("denial once fastlimit goes on", gets(429))
	l.kill()
	l.waitFor(fmt.Sprint("what a killed fastlimit leads to: ", want), gets(want...))
	for i := range 5 { // more than the limit
		path := "/killed" + strconv.Itoa(i)
		raw := "POST " + path + " HTTP/1.1\r\nHost: example.com\r\nContent-Length: 4\r\n\r\nbody"
		status, _ := send(t, "127.0.0.1", addr, raw)
		if seen := len(app.requests("POST " + path + " body ")); !slices.Contains(want, status) || (seen == 1) == closed || seen > 1 {
			t.Errorf("got %d, the app saw %d; closed is %v", status, seen, closed)
		}
	}
}

// sendFor is [send] for a client that waits for a time, as what is under way may hang.
func sendFor(t *testing.T, patience time.Duration, from, to, raw string) int {
	t.Helper()
	c := dial(t, from, to)
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, raw); err != nil {
		return 0
	}
	status, _ := answer(t, c)
	return status
}
