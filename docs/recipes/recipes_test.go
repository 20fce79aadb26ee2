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

// eachFront runs a test for every front.
func eachFront(t *testing.T, test func(t *testing.T, f *front)) {
	for i := range fronts {
		t.Run(fronts[i].name, func(t *testing.T) {
			t.Parallel()
			test(t, &fronts[i])
		})
	}
}

// eachForm runs a test for every front, open and closed.
func eachForm(t *testing.T, test func(t *testing.T, f *front, closed bool)) {
	eachFront(t, func(t *testing.T, f *front) {
		for _, closed := range []bool{false, true} {
			t.Run(fmt.Sprint("closed=", closed), func(t *testing.T) { test(t, f, closed) })
		}
	})
}

const (
	strict   = "rules: [{name: per-ip, rate: 1/h, burst: 3, strict: true}]\n"
	generous = "rules: [{name: per-ip, rate: 1000/s, burst: 100000}]\n"
)

func TestFloodAndNeighbour(t *testing.T) {
	eachFront(t, func(t *testing.T, f *front) {
		app, l := startApp(t), startLimiter(t, f.config(strict))
		addr := f.start(t, options{limiter: l.listen, app: app.Listener.Addr().String()})
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
	eachFront(t, func(t *testing.T, f *front) {
		app, l := startApp(t), startLimiter(t, f.config("deny: [127.0.0.1/32]\n"+generous))
		addr := f.start(t, options{limiter: l.listen, app: app.Listener.Addr().String()})
		status, header := send(t, "127.0.0.1", addr, get("/"))
		if status != 403 || header.Get("Retry-After") != "" || len(app.requests("")) != 0 {
			t.Errorf("got %d %v, the app saw %q", status, header, app.requests(""))
		}
	})
}

// odd are requests that fastlimit, or the front before it, may refuse.
var odd = map[string]string{
	"comma in Host":          "GET / HTTP/1.1\r\nHost: a,b\r\n\r\n",
	"half a bracket":         "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n",
	"Host not ASCII":         "GET / HTTP/1.1\r\nHost: \xff\xfe\r\n\r\n",
	"Host with a space":      "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
	"Host with a slash":      "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
	"Host percent":           "GET / HTTP/1.1\r\nHost: %zz\r\n\r\n",
	"Host with user":         "GET / HTTP/1.1\r\nHost: u@h\r\n\r\n",
	"Host with bad port":     "GET / HTTP/1.1\r\nHost: h:99999999\r\n\r\n",
	"long Host":              "GET / HTTP/1.1\r\nHost: " + strings.Repeat("a", 4000) + "\r\n\r\n",
	"empty Host":             "GET / HTTP/1.1\r\nHost:\r\n\r\n",
	"two Hosts":              "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
	"no Host":                "GET / HTTP/1.1\r\n\r\n",
	"HTTP/1.0":               "GET / HTTP/1.0\r\n\r\n",
	"HTTP/1.0 with Host":     "GET / HTTP/1.0\r\nHost: example.com\r\n\r\n",
	"HTTP/0.9":               "GET /\r\n",
	"HTTP/3.0":               "GET / HTTP/3.0\r\nHost: example.com\r\n\r\n",
	"percent":                get("/%zz"),
	"cut percent":            get("/a%2"),
	"encoded NUL":            get("/a%00b"),
	"target not ASCII":       get("/\xff\xfe"),
	"target not UTF-8":       get("/%ff%fe"),
	"dots":                   get("/../../etc"),
	"encoded dots":           get("/%2e%2e/%2e%2e/x"),
	"encoded slash":          get("/a%2fb"),
	"backslash":              get(`/a\b`),
	"fragment":               get("/a#b"),
	"only a query":           get("?a"),
	"absolute":               get("http://other.example/a"),
	"absolute without host":  get("http:///a"),
	"asterisk":               "OPTIONS * HTTP/1.1\r\nHost: example.com\r\n\r\n",
	"GET asterisk":           get("*"),
	"CONNECT":                "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n",
	"unknown method":         "FOO / HTTP/1.1\r\nHost: example.com\r\n\r\n",
	"long method":            strings.Repeat("A", 3000) + " / HTTP/1.1\r\nHost: example.com\r\n\r\n",
	"long target":            get("/" + strings.Repeat("a", 7000)),
	"9 KB of fields":         "GET / HTTP/1.1\r\nHost: example.com\r\n" + fields(9, 1000) + "\r\n",
	"30 KB of fields":        "GET / HTTP/1.1\r\nHost: example.com\r\n" + fields(10, 3000) + "\r\n",
	"60 KB of fields":        "GET / HTTP/1.1\r\nHost: example.com\r\n" + fields(20, 3000) + "\r\n",
	"long target and fields": "GET /" + strings.Repeat("a", 7000) + " HTTP/1.1\r\nHost: example.com\r\nX-Api-Key: " + strings.Repeat("k", 7000) + "\r\n\r\n",
	"60 KB of target":        get("/" + strings.Repeat("a", 60000)),
	"200 KB of target":       get("/" + strings.Repeat("a", 200000)),
	"a field of 20 KB":       "GET / HTTP/1.1\r\nHost: example.com\r\n" + fields(1, 20000) + "\r\n",
	"a field not ASCII":      "GET / HTTP/1.1\r\nHost: example.com\r\nX-A: \xff\r\n\r\n",
	"a field folded":         "GET / HTTP/1.1\r\nHost: example.com\r\nX-A: b\r\n c\r\n\r\n",
	"bare LF":                "GET / HTTP/1.1\nHost: example.com\n\n",
	"length and chunked":     "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"two lengths":            "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na",
	"length not a number":    "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: x\r\n\r\n",
	"unknown encoding":       "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
	"chunked":                "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
	"trailer":                "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n",
	"Upgrade":                "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
	"Upgrade to h2c":         "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n",
	"Expect":                 "GET / HTTP/1.1\r\nHost: example.com\r\nExpect: 100-continue\r\n\r\n",
	"unknown Expect":         "GET / HTTP/1.1\r\nHost: example.com\r\nExpect: miracle\r\n\r\n",
	"Connection names ours":  "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: X-Forwarded-For, X-Forwarded-Uri, X-Forwarded-Method, X-Original-URI, X-Original-Method\r\n\r\n",
	"underscores":            "GET / HTTP/1.1\r\nHost: example.com\r\nX_Forwarded_For: 192.0.2.1\r\nX_Original_URI: /b\r\n\r\n",
	"two addresses":          "GET / HTTP/1.1\r\nHost: example.com\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 192.0.2.2\r\n\r\n",
}

// fields are n fields with values of some size.
func fields(n, size int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "X-Field-%d: %s\r\n", i, strings.Repeat("v", size))
	}
	return b.String()
}

// TestOddRequests sends whatever might make fastlimit refuse to decide: as long
// as it is there, a request that reaches the app has been counted.
func TestOddRequests(t *testing.T) {
	eachForm(t, func(t *testing.T, f *front, closed bool) {
		app, l := startApp(t), startLimiter(t, f.config(generous))
		addr := f.start(t, options{limiter: l.listen, app: app.Listener.Addr().String(), closed: closed})
		for name, raw := range odd {
			counted, seen := l.allowed(), len(app.requests(""))
			status, _ := send(t, "127.0.0.1", addr, raw)
			counted, seen = l.allowed()-counted, len(app.requests(""))-seen
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
	eachForm(t, func(t *testing.T, f *front, closed bool) {
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
	eachForm(t, func(t *testing.T, f *front, closed bool) {
		app, l := startApp(t), startLimiter(t, f.config(strict))
		addr := f.start(t, options{limiter: l.listen, app: app.Listener.Addr().String(), closed: closed})
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
		if status, _ := send(t, "127.0.0.1", addr, get("/")); status != 200 {
			t.Fatalf("got %d before", status)
		}
		l.stop()
		for i := range 5 { // more than the limit
			try("/stopped" + strconv.Itoa(i))
		}
		l.signal(syscall.SIGCONT)
		for range 10 {
			if status, _ := send(t, "127.0.0.1", addr, get("/")); status == 429 {
				l.kill()
				try("/killed")
				return
			}
		}
		t.Error("nobody is limited after fastlimit goes on")
	})
}

// TestAppAway has the app break off: what goes wrong behind the verdict is no
// reason to send a request again.
func TestAppAway(t *testing.T) {
	eachForm(t, func(t *testing.T, f *front, closed bool) {
		app, l := startApp(t), startLimiter(t, f.config(generous))
		addr := f.start(t, options{limiter: l.listen, app: app.Listener.Addr().String(), closed: closed})
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
	eachForm(t, func(t *testing.T, f *front, closed bool) {
		app, l := startApp(t), startLimiter(t, f.config(strict))
		addr := f.start(t, options{limiter: l.listen, app: app.Listener.Addr().String(), closed: closed})
		heads := []string{"Content-Length: 8\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", "Content-Length: 8\r\nExpect: 100-continue\r\n\r\n"}
		ends := []string{"done", "4\r\ndone\r\n0\r\n\r\n", "halfdone"}
		conns := make([]net.Conn, 0, 6)
		for i := range 6 {
			c := dial(t, "127.0.0.1", addr)
			defer c.Close()
			if _, err := io.WriteString(c, "POST /slow HTTP/1.1\r\nHost: example.com\r\n"+heads[i%3]); err != nil {
				t.Fatal(err)
			}
			if i < 3 { // beyond it the limit is reached
				l.waitAllowed(i + 1)
			}
			conns = append(conns, c)
		}
		for i, c := range conns {
			if _, err := io.WriteString(c, ends[i%3]); err != nil {
				t.Fatal(err)
			}
			want := 200
			if i >= 3 {
				want = 429
			}
			if status, _ := answer(t, c); status != want {
				t.Errorf("upload %d got %d, want %d", i, status, want)
			}
		}
		if seen := app.requests("POST /slow halfdone"); len(seen) != 3 {
			t.Errorf("the app saw %q, want 3", seen)
		}
	})
}

// TestKeyByHeader sends a header twice: the app must not take another value for
// the client's than the one that was counted.
func TestKeyByHeader(t *testing.T) {
	eachFront(t, func(t *testing.T, f *front) {
		app, l := startApp(t), startLimiter(t, f.config("rules: [{name: per-key, key: \"header:X-Api-Key\", rate: 1/h, burst: 3, strict: true}]\n"))
		addr := f.start(t, options{limiter: l.listen, app: app.Listener.Addr().String(), byKey: true})
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
