package server

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
	"github.com/fastlimit/fastlimit/policy"
)

// withTLS gives the first listener a certificate.
func withTLS(t testing.TB) func(*Config) {
	files := redistest.NewCertificate(t, time.Now().Add(time.Hour))
	return func(c *Config) { c.Listeners[0].TLS = &TLS{CertFile: files.CertFile, KeyFile: files.KeyFile} }
}

// insecure is for clients: the certificate is not what is tested.
var insecure = tls.Config{InsecureSkipVerify: true}

// httpsClient is a client of one connection that speaks HTTP/2, or HTTP/1.1 only.
func httpsClient(t testing.TB, http2 bool) *http.Client {
	tr := &http.Transport{DisableCompression: true, MaxConnsPerHost: 1, TLSClientConfig: insecure.Clone(), Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP2(http2)
	tr.Protocols.SetHTTP1(!http2)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 30 * time.Second}
}

// shownAnswer is what a client sees of an answer, but for its version and Date.
type shownAnswer struct {
	status int
	fields string
	body   string
}

func ask2(t testing.TB, c *http.Client, method, url, body string, fields ...string) shownAnswer {
	t.Helper()
	var from io.Reader
	if body != "" {
		from = struct{ io.Reader }{strings.NewReader(body)} // of a length that is not known
	}
	return askBody(t, c, method, url, from, fields...)
}

func askBody(t testing.TB, c *http.Client, method, url string, from io.Reader, fields ...string) shownAnswer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, from)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		req.Header.Add(name, value)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := http.ParseTime(resp.Header.Get("Date")); err != nil {
		t.Error(err)
	}
	resp.Header.Del("Date")
	var shown bytes.Buffer
	_ = resp.Header.Write(&shown)
	return shownAnswer{resp.StatusCode, shown.String(), string(got)}
}

// daily admits three requests of a client to /limited a day, so that answers do not depend on
// when they are asked for.
func daily() policy.Settings {
	return policy.Settings{Rules: []policy.RuleSpec{{
		Limit: fastlimit.RuleConfig{Name: "daily", Rate: fastlimit.Rate{N: 1, Per: 24 * time.Hour}, Burst: 3, Strict: true},
		Key:   []policy.KeyPart{{Kind: policy.KeyIP}}, Match: policy.Match{Paths: []string{"/limited"}},
	}}}
}

// Over HTTP/2 the same requests get the same answers, byte for byte, and are counted alike.
func TestHTTP2AnswersAsHTTP1(t *testing.T) {
	t.Parallel()
	var servers [2]*running
	var answers [2][]shownAnswer
	for i := range servers {
		s := start(t, daily(), withTLS(t), func(c *Config) {
			c.Listeners[0].Headers = []HeaderSet{RateLimitLegacyHeaders} // whole seconds of a day
			c.Listeners[0].HeadersOn = HeadersAlways
		})
		servers[i] = s
		c := httpsClient(t, i == 1)
		for _, q := range []struct{ method, path, body, field string }{
			{"GET", "/", "", ""},
			{"GET", "/limited", "", ""},
			{"POST", "/limited", "abc", ""},
			{"PUT", "/limited?x=1", strings.Repeat("long ", 4000), ""},
			{"GET", "/limited", "", ""},
			{"HEAD", "/limited", "", ""},
			{"POST", "/limited", "x", ""},
			{"DELETE", "/%6cimited", "", ""},
			{"OPTIONS", "/limited", "", ""},
			{"GET", "/x", "", "X-Long: " + strings.Repeat("x", 9000)},
			{"GET", "/limited", "", "Cookie: a=b"},
			{"PATCH", "/", "y", "Content-Type: text/plain"},
			{"GET", "/v1/decide", "", ""},
		} {
			var fields []string
			if q.field != "" {
				fields = append(fields, q.field)
			}
			answers[i] = append(answers[i], ask2(t, c, q.method, "https://"+s.addr+q.path, q.body, fields...))
		}
	}
	for i, want := range answers[0] {
		want.fields = strings.ReplaceAll(want.fields, "Connection: close\r\n", "") // a bad request ends its connection, and only its stream
		if got := answers[1][i]; got != want {
			t.Errorf("request %d:\ngot  %+v\nwant %+v", i, got, want)
		}
	}
	if got, want := fmt.Sprint(servers[1].counts()), fmt.Sprint(servers[0].counts()); got != want {
		t.Errorf("counted %s, want %s", got, want)
	}
	if n := servers[1].http2.Stats(); n.Streams != uint64(len(answers[1])) || n.Connections != 1 || n.Resets != 0 {
		t.Errorf("%+v", n)
	}
	if n := servers[1].conns.Open(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// A client that floods over the streams of one connection gets its limit, not more, and another
// one its own.
func TestHTTP2FloodGetsTheLimit(t *testing.T) {
	t.Parallel()
	s := start(t, daily(), withTLS(t))
	c := httpsClient(t, true)
	var admitted, denied atomic.Int64
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for range 20 {
				switch got := ask2(t, c, "GET", "https://"+s.addr+"/limited", ""); got.status {
				case 200:
					admitted.Add(1)
				case 429:
					denied.Add(1)
				}
			}
		})
	}
	all.Wait()
	if admitted.Load() != 3 || denied.Load() != 64*20-3 {
		t.Errorf("%d are admitted, %d denied", admitted.Load(), denied.Load())
	}
	other := dialFrom(t, "127.0.0.9", s.addr)
	f := newFramer(t, other)
	f.request(1, true, ":method", "GET", ":scheme", "https", ":path", "/limited", ":authority", "a")
	if got := f.answer(1); got != "200" {
		t.Errorf("another client gets %s", got)
	}
}
