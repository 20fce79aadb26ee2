package conn

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/server/internal/http1"
	"github.com/valyala/fasthttp"
)

// browser is a head as browsers send it.
const browser = "GET /shop/item?id=4711 HTTP/1.1\r\nHost: shop.example.com\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0\r\n" +
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-US,en;q=0.5\r\n" +
	"Accept-Encoding: gzip, deflate, br, zstd\r\nReferer: https://shop.example.com/list?page=3\r\n" +
	"Cookie: sid=0123456789abcdef; theme=dark\r\nSec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\nPriority: u=0, i\r\n\r\n"

func TestHead(t *testing.T) {
	t.Parallel()
	get := func(lines string) string { return "GET / HTTP/1.1\r\n" + lines + "\r\n" }
	for head, want := range map[string]found{
		simple: whole, browser: whole,
		get("HOST:a\r\n"):                                                       whole,
		get("Host: \ta \t\r\nX:\r\nY:\ta\tb\r\n"):                               whole,
		get("Host: a\r\nX: \xff\xfe\r\n"):                                       whole,
		get("Host: a\r\nConnection: x, Close\r\n"):                              whole,
		get("Host: a\r\nX-Forwarded-For: 1\r\n"):                                whole,
		get("Host: a\r\nHost: a\r\n"):                                           odd,
		get("Host:\r\nHost: a\r\n"):                                             odd,
		get("X: a\r\n"):                                                         odd,
		get("Host: a\r\nX: \x00\r\n"):                                           odd,
		get("Host: a\r\nX: abcdefghijklmnop\x7f\r\n"):                           odd,
		get("Host: a\r\nX: a\n"):                                                odd,
		get("Host: a\r\nX: a\rb\r\n"):                                           odd,
		get("Host: a\r\n X: a\r\n"):                                             odd,
		get("Host: a\r\nX : a\r\n"):                                             odd,
		get("Host: a\r\nX\r\n"):                                                 odd,
		get("Host: a\r\n: a\r\n"):                                               odd,
		get("Host: a\r\nContent-Length: 0\r\n"):                                 odd,
		get("Host: a\r\ntransfer-encoding: x\r\n"):                              odd,
		get("Host: a\r\nExpect: x\r\n"):                                         odd,
		get("Host: a\r\nupgrade: x\r\n"):                                        odd,
		get("Host: a\r\nTRAILER: x\r\n"):                                        odd,
		get("Host: a\r\nConnection: " + strings.Repeat("x", lineKept) + "\r\n"): odd,
		get("Host: a\r\n" + strings.Repeat("x", lineKept) + ": x\r\n"):          odd,
		get("Host: a\r\n" + strings.Repeat("x", lineKept-1) + ": x\r\n"):        whole,
		"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n":                                    odd,
		"get / HTTP/1.1\r\nHost: a\r\n\r\n":                                     odd,
		"GET / HTTP/1.0\r\nHost: a\r\n\r\n":                                     whole,
		"GET / HTTP/1.0\r\n\r\n":                                                whole,
		"GET / HTTP/1.0\r\nHost:\r\n\r\n":                                       odd,
		"GET / HTTP/1.0\r\nConnection: close\r\n\r\n":                           whole,
		"GET / HTTP/1.0\r\nConnection: x\r\n\r\n":                               odd,
		"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n":                      odd,
		"GET / HTTP/1.2\r\nHost: a\r\n\r\n":                                     odd,
		"GET / x HTTP/1.1\r\nHost: a\r\n\r\n":                                   odd,
		"GET  HTTP/1.1\r\nHost: a\r\n\r\n":                                      odd,
		"GET / HTTP/1.1\nHost: a\r\n\r\n":                                       odd,
		"GET /\tx HTTP/1.1\r\nHost: a\r\n\r\n":                                  odd,
		"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n":                                 odd,
		"GET * HTTP/1.1\r\nHost: a\r\n\r\n":                                     odd,
		"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n":                             odd,
		" / HTTP/1.1\r\nHost: a\r\n\r\n":                                        odd,
		"GET / HTTP/1.1\nXHost: a\r\n\r\n":                                      odd,
		get("Host: a\r\nTransfer-Encoding: chunked\r\n"):                        odd,
	} {
		if _, got := new(Head).read([]byte(head + "GET")); got != want {
			t.Errorf("%q: %d, want %d", head, got, want)
		}
		checkHead(t, []byte(head))
	}
}

// FuzzHead compares what read takes with what the gate and fasthttp make of it.
func FuzzHead(f *testing.F) {
	for _, s := range []string{simple, browser, simple + simple, "GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.0\r\nConnection: close\r\n\r\n", "GET /\xff HTTP/1.1\r\nHost: a\r\nConnection: close\r\nForwarded: for=1\r\n\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(checkHead)
}

func checkHead(t *testing.T, b []byte) {
	h := Head{Host: []byte("earlier"), close: true, forwarded: true}
	n, what := h.read(b)
	if what != whole {
		if n != 0 {
			t.Fatalf("%q: takes %d bytes of what is not whole", b, n)
		}
		return
	}
	head := bytes.Clone(b[:n])
	var g, skipped gate
	skipped.skip(&h)
	if passed := g.pass(head); passed != n || g.problem != nil || g.length || g.chunked {
		t.Fatalf("%q: the gate lets %d of %d bytes pass: %v", head, passed, n, g.problem)
	}
	// That HTTP/1.0 ends with its answer fasthttp knows by itself.
	if g.heads != skipped.heads || g.forwarded != skipped.forwarded || !h.Old && (g.last != skipped.last || (g.state == gateClosed) != h.close) {
		t.Fatalf("%q: the gate notes %+v, skip %+v", head, g, skipped)
	}
	var parsed fasthttp.RequestHeader
	in := bufio.NewReaderSize(bytes.NewReader(head), len(head)+16)
	if err := parsed.Read(in); err != nil || in.Buffered() > 0 {
		t.Fatalf("%q: fasthttp says %v, and leaves %d bytes", head, err, in.Buffered())
	}
	if !bytes.Equal(parsed.Method(), h.Method) || !bytes.Equal(parsed.RequestURI(), h.Target) || !bytes.Equal(parsed.Host(), h.Host) ||
		strings.TrimSuffix(string(parsed.RawHeaders()), "\r\n") != string(h.Fields) || string(parsed.Protocol()) != map[bool]string{true: "HTTP/1.0", false: "HTTP/1.1"}[h.Old] || parsed.ContentLength() > 0 {
		t.Fatalf("%q: fasthttp reads\n%q, we\n%q %q %q %q", head, parsed.String(), h.Method, h.Target, h.Host, h.Fields)
	}
	if h.Old && (!parsed.ConnectionClose() || !h.close) {
		t.Fatalf("%q: goes on", head)
	}
	for i := range head {
		if _, what := h.read(head[:i]); what != partial {
			t.Fatalf("%q: %d is not the beginning of a head", head[:i], what)
		}
	}
}

// BenchmarkHead reads a head as residents do, as a proxy does, and as both would with
// the gate and fasthttp's parser.
func BenchmarkHead(b *testing.B) {
	for _, c := range []struct{ name, head string }{{"host", simple}, {"browser", browser}} {
		head := []byte(c.head)
		b.Run(c.name+"/once", func(b *testing.B) {
			var h Head
			for b.Loop() {
				if _, what := h.read(head); what != whole {
					b.Fatal(what)
				}
			}
		})
		b.Run(c.name+"/http1", func(b *testing.B) {
			var r http1.Request
			for b.Loop() {
				if n, err := r.Parse(head); n == 0 {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/gate+fasthttp", func(b *testing.B) {
			var g gate
			var h fasthttp.RequestHeader
			src := bytes.NewReader(nil)
			in := bufio.NewReaderSize(src, smallHead)
			for b.Loop() {
				src.Reset(head)
				in.Reset(src)
				if g.pass(head); h.Read(in) != nil {
					b.Fatal()
				}
			}
		})
	}
}
