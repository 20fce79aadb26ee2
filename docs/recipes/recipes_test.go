// Package recipes_test drives the recipes of this directory, only their
// addresses replaced, in the real web servers, with floods, fastlimit that is
// killed or stands still, and all that a client can send to pass uncounted.
package recipes_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// eachFront runs a test for every front that pick picks, nil for all of them.
func eachFront(t *testing.T, pick func(*front) bool, test func(t *testing.T, f *front)) {
	for i := range fronts {
		f := &fronts[i]
		if pick != nil && !pick(f) {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			test(t, f)
		})
	}
}

// eachForm does so for those open and closed.
func eachForm(t *testing.T, pick func(*front) bool, test func(t *testing.T, f *front, closed bool)) {
	eachFront(t, pick, func(t *testing.T, f *front) {
		for _, closed := range []bool{false, true} {
			// Of proxied fronts only TestProxyAway sees a difference.
			if f.closedOnly && !closed || f.proxied && closed {
				continue
			}
			t.Run(fmt.Sprint("closed=", closed), func(t *testing.T) { test(t, f, closed) })
		}
	})
}

// isServer picks the fronts that are the real servers, asks those that ask fastlimit.
func isServer(f *front) bool  { return !f.replayed }
func asks(f *front) bool      { return !f.proxied }
func isProxied(f *front) bool { return f.proxied }

const (
	strict   = "rules: [{name: per-ip, rate: 1/h, burst: 3, strict: true}]\n"
	generous = "rules: [{name: per-ip, rate: 1000/s, burst: 100000}]\n"
)

func TestFloodAndNeighbour(t *testing.T) {
	eachFront(t, nil, func(t *testing.T, f *front) {
		app, _, addr := f.up(t, strict, options{})
		for i := range 50 {
			// What a client claims to be, or to ask for, changes nothing.
			raw := fmt.Sprintf("GET /a HTTP/1.1\r\nHost: example.com\r\nX-Forwarded-For: 203.0.113.%d\r\n"+
				"X-Original-URI: /%[1]d\r\nX-Forwarded-Uri: /%[1]d\r\nX-Original-Method: PUT\r\nX-Forwarded-Method: PUT\r\n\r\n", i)
			status, header := send(t, "127.0.0.1", addr, raw)
			if i < 3 {
				if status != 200 {
					t.Fatalf("request %d got %d", i, status)
				}
				continue
			}
			retry, err := strconv.Atoi(header.Get("Retry-After"))
			if status != 429 || err != nil || retry < 3500 || retry > 3600 {
				t.Fatalf("request %d got %d, Retry-After %q", i, status, header.Get("Retry-After"))
			}
			if !strings.HasPrefix(header.Get("RateLimit"), `"per-ip";r=0;t=`) || header.Get("RateLimit-Policy") != `"per-ip";q=3;w=10800` {
				t.Fatalf("fields of the denial: %v", header)
			}
		}
		for i := range 3 {
			if status, _ := send(t, "127.0.0.2", addr, get("/neighbour")); status != 200 {
				t.Errorf("request %d of a neighbour got %d", i, status)
			}
		}
		if n := len(app.requests("GET /a")); n != 3 {
			t.Errorf("the app saw %d requests of the flood, want 3", n)
		}
	})
}

func TestDenyList(t *testing.T) {
	eachFront(t, nil, func(t *testing.T, f *front) {
		app, _, addr := f.up(t, "deny: [127.0.0.1/32]\n"+generous, options{})
		status, header := send(t, "127.0.0.1", addr, get("/"))
		if status != 403 || header.Get("Retry-After") != "" || len(app.requests("")) != 0 {
			t.Errorf("got %d %v, the app saw %q", status, header, app.requests(""))
		}
	})
}

// TestOddRequests sends whatever might make fastlimit refuse to decide: as long
// as it is there, a request that reaches the app has been counted.
func TestOddRequests(t *testing.T) {
	eachForm(t, nil, func(t *testing.T, f *front, closed bool) {
		app, l, addr := f.up(t, generous, options{closed: closed})
		for name, raw := range odd {
			var status, counted, seen int
			// One that opens finds a machine too slow now and then; a way past it works each time.
			for try := 0; try == 0 || !closed && try < 3 && seen > counted; try++ {
				counted, seen = l.allowed(), len(app.requests(""))
				status, _ = send(t, "127.0.0.1", addr, raw)
				counted, seen = l.allowed()-counted, len(app.requests(""))-seen
			}
			if seen > counted || seen > 1 {
				t.Errorf("%s: the app saw %d, counted were %d (status %d)", name, seen, counted, status)
			}
			if status >= 500 && status != 501 && status != 505 && !slices.Contains(f.refuses, name) {
				t.Errorf("%s: got %d", name, status)
			}
		}
		for _, name := range []string{"9 KB of fields", "chunked", "HTTP/1.0", "absolute", "encoded slash"} {
			if slices.Contains(f.refuses, name) {
				continue
			}
			if status, _ := send(t, "127.0.0.1", addr, odd[name]); status != 200 {
				t.Errorf("%s: got %d, want 200", name, status)
			}
		}
	})
}

// TestStatuses has a stand-in answer every status: only an error of fastlimit's
// own may open, and a refusal never does.
func TestStatuses(t *testing.T) {
	eachForm(t, func(f *front) bool { return isServer(f) && asks(f) }, func(t *testing.T, f *front, closed bool) {
		status := 0
		stand := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		defer stand.Close()
		app := startApp(t)
		addr := f.start(t, options{limiter: stand.Listener.Addr().String(), app: app.Listener.Addr().String(), closed: closed})
		for _, status = range slices.Concat(
			[]int{200, 204, 300, 301, 302, 304, 307}, span(400, 432), []int{444, 451, 494, 499}, span(500, 512), []int{599}) {
			seen := len(app.requests(""))
			got, _ := send(t, "127.0.0.1", addr, get("/"))
			passed := len(app.requests("")) > seen
			known := slices.Contains([]int{500, 502, 503, 504}, status)
			switch {
			case status < 300 && !passed, status >= 300 && status < 500 && passed:
				t.Errorf("fastlimit says %d: passed is %v", status, passed)
			case known && passed == closed:
				t.Errorf("fastlimit says %d: passed is %v, closed is %v", status, passed, closed)
			case !passed && got < 300 && got != 0 || passed && got != 200:
				t.Errorf("fastlimit says %d: passed is %v and the client got %d", status, passed, got)
			}
		}
	})
}

func span(from, to int) (s []int) {
	for i := from; i < to; i++ {
		s = append(s, i)
	}
	return s
}

// TestAway kills fastlimit, and stops it where it stands.
func TestAway(t *testing.T) {
	eachForm(t, asks, func(t *testing.T, f *front, closed bool) {
		app, l, addr := f.up(t, strict, options{closed: closed, inTime: true})
		want, times := []int{200}, 1
		if closed {
			want, times = f.away, 0
		}
		try := func(path string) {
			t.Helper()
			raw := "POST " + path + " HTTP/1.1\r\nHost: example.com\r\nContent-Length: 4\r\n\r\nbody"
			if status, _ := send(t, "127.0.0.1", addr, raw); !slices.Contains(want, status) {
				t.Errorf("%s: got %d, want %d", path, status, want)
			}
			if seen := app.requests("POST " + path + " body "); len(seen) != times {
				t.Errorf("%s: the app saw %q, want %d", path, seen, times)
			}
		}
		l.waitFor("an admission", func() bool { // it may be late
			status, _ := send(t, "127.0.0.1", addr, get("/"))
			return status == 200 && l.allowed() > 0
		})
		if !f.closedOnly {
			l.stop()
			for i := range 5 { // more than the limit
				try("/stopped" + strconv.Itoa(i))
			}
			l.signal(syscall.SIGCONT)
		}
		l.waitFor("denial once fastlimit goes on", func() bool {
			status, _ := send(t, "127.0.0.1", addr, get("/"))
			return status == 429
		})
		l.kill()
		try("/killed")
	})
}

// TestAppAway has the app break off: what goes wrong behind the verdict is no
// reason to send a request again.
func TestAppAway(t *testing.T) {
	eachForm(t, isServer, func(t *testing.T, f *front, closed bool) {
		app, l, addr := f.up(t, generous, options{closed: closed})
		raw := "POST /crash HTTP/1.1\r\nHost: example.com\r\nContent-Length: 4\r\n\r\nbody"
		status, _ := send(t, "127.0.0.1", addr, raw)
		if seen := app.requests("POST /crash"); status != 502 || len(seen) != 1 || l.allowed() != 1 {
			t.Errorf("got %d, the app saw %q, counted were %d", status, seen, l.allowed())
		}
	})
}

// TestSlowUpload stalls bodies: fastlimit is asked before they end, and who is
// denied does not reach the app. Caddy answers a denied upload once it has ended,
// nginx at once.
func TestSlowUpload(t *testing.T) {
	eachForm(t, isServer, func(t *testing.T, f *front, closed bool) {
		app, l, addr := f.up(t, strict, options{closed: closed})
		heads := []string{"Content-Length: 8\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", "Content-Length: 8\r\nExpect: 100-continue\r\n\r\n"}
		ends := []string{"done", "4\r\ndone\r\n0\r\n\r\n", "halfdone"}
		conns := make([]net.Conn, 0, 6)
		for i := range 6 {
			c := dial(t, "127.0.0.1", addr)
			defer c.Close()
			if _, err := io.WriteString(c, "POST /slow HTTP/1.1\r\nHost: example.com\r\n"+heads[i%3]); err != nil {
				t.Fatal(err)
			}
			if i < 3 && !f.spools { // beyond it the limit is reached
				l.waitAllowed(i + 1)
			}
			conns = append(conns, c)
		}
		got := make([]int, len(conns))
		// First those that are denied: fastlimit waits for the rest of their bodies a second, and a front
		// that still writes after that finds no answer (Varnish says 503).
		for _, i := range []int{3, 4, 5, 0, 1, 2} {
			if _, err := io.WriteString(conns[i], ends[i%3]); err != nil {
				t.Fatal(err)
			}
			got[i], _ = answer(t, conns[i])
		}
		if f.spools {
			slices.Sort(got)
		}
		if want := []int{200, 200, 200, 429, 429, 429}; !slices.Equal(got, want) {
			t.Errorf("the uploads got %d, want %d", got, want)
		}
		if seen := app.requests("POST /slow halfdone"); len(seen) != 3 {
			t.Errorf("the app saw %q, want 3", seen)
		}
	})
}

// TestKeyByHeader sends a header twice: the app must not take another value for
// the client's than the one that was counted.
func TestKeyByHeader(t *testing.T) {
	eachFront(t, func(f *front) bool { return !f.sharedKeys }, func(t *testing.T, f *front) {
		app, _, addr := f.up(t, "rules: [{name: per-key, key: \"header:X-Api-Key\", rate: 1/h, burst: 3, strict: true}]\n", options{byKey: true})
		for i := range 20 {
			for _, keys := range [][2]string{{"", "alice"}, {"x" + strconv.Itoa(i), "alice"}, {"alice", ""}, {"alice", "x" + strconv.Itoa(i)}} {
				send(t, "127.0.0.1", addr, "GET / HTTP/1.1\r\nHost: example.com\r\nX-Api-Key: "+keys[0]+"\r\nX-Api-Key: "+keys[1]+"\r\n\r\n")
			}
			send(t, "127.0.0.1", addr, "GET / HTTP/1.1\r\nHost: example.com\r\nX-Api-Key: alice\r\n\r\n")
		}
		seen := 0
		for _, s := range app.requests("") {
			if strings.Contains(s, `"alice"`) {
				seen++
			}
		}
		if seen != 3 {
			t.Errorf("alice reached the app %d times, want 3", seen)
		}
	})
}
