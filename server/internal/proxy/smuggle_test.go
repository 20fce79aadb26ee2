package proxy

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit/rawhttp"
	"github.com/fastlimit/fastlimit/internal/testkit/streams"
)

// asSent are the requests that a stream holds, as an upstream has to get them.
func asSent(stream string) (all []streams.Request, early bool) {
	all, _, early = streams.Requests(stream)
	for i := range all {
		r := &all[i]
		host := cmp.Or(strings.Join(r.Fields["host"], ""), "-")
		if _, rest, ok := strings.Cut(r.Target, "://"); ok && r.Target[0] != '/' {
			end := strings.IndexAny(rest+"/", "/?")
			host, r.Target = rest[:end], rest[end:]
			if !strings.HasPrefix(r.Target, "/") {
				r.Target = "/" + r.Target
			}
		}
		r.Fields["host"] = []string{host}
	}
	return all, early
}

// sameRequest compares what means something to an app.
func sameRequest(a, b *streams.Request) bool {
	return a.Method == b.Method && a.Target == b.Target && slices.Equal(a.Fields["host"], b.Fields["host"]) && a.Body == b.Body
}

// compare checks a stream whose requests are known, and reports what does not fit.
func (s *smuggling) compare(t testing.TB, stream string, how int) verdict {
	t.Helper()
	v := s.judge(t, rawhttp.Cut(stream, how)...)
	want, early := asSent(stream)
	if n := len(v.whole) + len(v.partial); uint64(n) != v.lent || v.lent > v.admitted || n > len(want) || len(v.partial) > 1 || len(v.partial) == 1 && !early && !slices.Contains(v.answers, 400) {
		t.Errorf("cut %d: the upstream gets %d requests and %d in part, %d were sent of %d admitted, the reference reads %d: %.300q", how, len(v.whole), len(v.partial), v.lent, v.admitted, len(want), stream)
	}
	unused := slices.Clone(want)
	for i := range v.whole {
		at := slices.IndexFunc(unused, func(r streams.Request) bool { return sameRequest(&r, &v.whole[i]) })
		if at < 0 {
			t.Errorf("cut %d: the upstream gets %+v of %.300q", how, v.whole[i], stream)
			break
		}
		unused = slices.Delete(unused, at, at+1)
	}
	oks := 0
	for i, status := range v.answers {
		if status == 200 {
			oks++
		} else if i != len(v.answers)-1 && status != http.StatusLoopDetected {
			t.Errorf("cut %d: answered on after a refusal: %v: %.300q", how, v.answers, stream)
		}
	}
	if oks != len(v.whole) {
		t.Errorf("cut %d: %d answers for %d requests: %.300q", how, oks, len(v.whole), stream)
	}
	return v
}

// Every stream of the corpus comes out with one meaning, the one it came with, or is
// refused, no matter how it is cut; so does whatever stands behind or before it.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	s := startSmuggling(t, nil)
	for i, it := range streams.Corpus() {
		ways := 3
		if len(it.Stream) > 1<<20 || testing.Short() {
			ways = 1
		}
		for how := range ways {
			v := s.compare(t, it.Stream, cmp.Or(how, i%2*2))
			if n := len(v.whole); n != it.OKs && (it.OKs == 0 || !strings.Contains(it.Stream, "HTTP/1.0")) {
				t.Errorf("%s, cut %d: %d requests, want %d: %.200q", it.Name, how, n, it.OKs, it.Stream)
			}
		}
		if t.Failed() && i > 20 {
			return
		}
	}
}

// What a client says of who it is, and what belongs to its connection, is not passed on,
// however it is spelt.
func TestFieldsOfOthersAreDropped(t *testing.T) {
	t.Parallel()
	s := startSmuggling(t, nil)
	for _, line := range []string{
		"X-Forwarded-For: 1.2.3.4", "x-forwarded-for:1.2.3.4", "X_Forwarded_For: 1.2.3.4", "X.Forwarded.For: 1.2.3.4", "X-Forwarded_For: 1.2.3.4", "x_forwarded.for: 1.2.3.4", "X-Forwarded-Proto: https", "X_FORWARDED_PROTO: https",
		"X-Forwarded-Host: b", "X-Forwarded-Port: 1", "X-Forwarded-Server: b", "X-Forwarded-Anything: b", "X-Forwarded-: b", "Forwarded: for=1.2.3.4", "forwarded: for=1.2.3.4;host=b", "X-Real-IP: 1.2.3.4", "X_Real_IP: 1.2.3.4",
		"X.Real-Ip: 1.2.3.4", "X-Original-URL: /b", "X_Original_URL: /b", "X-Rewrite-URL: /b", "X-Original-URI: /b", "X-Original-Method: PUT",
		"Connection: X-Api-Key\r\nX-Api-Key: gone", "X-Api-Key: gone\r\nConnection: close, x-API-key", "Connection: x\r\nX-Api-Key: gone\r\nConnection: ,\tX-Api-Key ,", "Connection: X-Forwarded-For, Forwarded, X-Forwarded-Proto, X-Forwarded-Host, Via, Host",
		"Connection: Host", "Connection: Content-Length, Transfer-Encoding, x", "Keep-Alive: timeout=9", "Proxy-Connection: keep-alive", "Proxy-Authorization: Basic x", "TE: trailers", "Upgrade: websocket", "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: x",
		"Connection: Upgrade\r\nUpgrade: h2", "Connection: Upgrade\r\nUpgrade: websocket, H2C", "Connection: Upgrade\r\nUpgrade: a\r\nUpgrade: h2c",
	} {
		for _, request := range []string{
			"GET /a HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n", "GET /a HTTP/1.1\r\n%s\r\nHost: a\r\n\r\n", "POST /a HTTP/1.1\r\nHost: a\r\n%s\r\nContent-Length: 2\r\n\r\nok",
			"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n%s\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		} {
			stream := fmt.Sprintf(request, line)
			v := s.compare(t, stream, 0)
			if len(v.whole) != 1 {
				t.Errorf("%q: %+v", stream, v)
				continue
			}
			for name := range v.whole[0].Fields {
				switch name {
				case "host", "via", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded", "content-length", "transfer-encoding":
				default:
					t.Errorf("%q: %s: %q", stream, name, v.whole[0].Fields[name])
				}
			}
		}
	}
}

// Trailers that would name the client, or where a message ends, if a server added them to the fields of the
// head, do not come through; others do, both in requests and answers.
func TestTrailersOfRequests(t *testing.T) {
	t.Parallel()
	s := startSmuggling(t, nil)
	v := s.compare(t, "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\nContent-Length: 9\r\nX-Forwarded-For: 1.2.3.4\r\nx_forwarded_for: 1.2.3.4\r\nHost: b\r\nTransfer-Encoding: x\r\nX-Last: 2\r\n\r\n", 0)
	if len(v.whole) != 1 || v.whole[0].Trailers != "X-Sum: 1\r\nX-Last: 2\r\n" {
		t.Errorf("%+v", v)
	}
}

// FuzzProxy: whatever comes in, what the upstream gets is a sequence of valid requests, each
// of which stands in the stream, was decided once and is answered.
func FuzzProxy(f *testing.F) {
	for i, it := range streams.Corpus() {
		if len(it.Stream) < 2000 && i%5 == 0 {
			f.Add([]byte(it.Stream), uint8(i))
		}
	}
	s := startSmuggling(f, func(o *standOptions) { o.limits.Max = 8 })
	f.Fuzz(func(t *testing.T, stream []byte, how uint8) { s.compare(t, string(stream), int(how)) })
}
