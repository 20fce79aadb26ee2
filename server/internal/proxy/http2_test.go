package proxy

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/rawhttp"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
	"github.com/fastlimit/fastlimit/server/internal/conn"
	"github.com/fastlimit/fastlimit/server/internal/h2"
)

// overHTTP2 gives the listener a certificate and HTTP/2.
func overHTTP2(t testing.TB) func(*standOptions) {
	files := redistest.NewCertificate(t, time.Now().Add(time.Hour))
	pair, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
	must(t, err)
	return func(o *standOptions) {
		o.options = conn.Options{
			TLS:   &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12},
			HTTP2: h2.New(h2.Config{HeadBytes: o.limits.HeadBytes, WriteTimeout: time.Hour, Log: o.pool.Log}).Serve,
		}
	}
}

func client2(t testing.TB) *http.Client {
	tr := &http.Transport{
		DisableCompression: true, Protocols: new(http.Protocols),
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the certificate is not what is tested
	}
	tr.Protocols.SetHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 30 * time.Second}
}

// What an upstream gets of a request over HTTP/2 is what it gets of one over HTTP/1.1, with
// the client's address and https, and nothing that this proxy adds twice.
func TestHTTP2RequestAtTheUpstream(t *testing.T) {
	t.Parallel()
	got := make(chan *http.Request, 1)
	addr := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		got <- r
	})
	s := start(t, overHTTP2(t), addr)
	req := request(t, "POST", "https://"+s.addr+"/a%20b?c=d", struct{ io.Reader }{strings.NewReader(strings.Repeat("body ", 50000))})
	req.Host = "example.test:8443"
	req.Header = http.Header{
		"X-One": {"1", "2"}, "Cookie": {"a=b", "c=d"}, "X-Forwarded-For": {"192.0.2.9"}, "Forwarded": {"for=192.0.2.9"}, "X-Real-Ip": {"192.0.2.9"},
		"Te": {"trailers"}, "User-Agent": nil, "Authorization": {"x"},
	}
	req.Trailer = http.Header{"X-Sum": {"7"}}
	if resp, _ := do(t, client2(t), req); resp.StatusCode != 200 || resp.ProtoMajor != 2 {
		t.Fatal(resp.Status, resp.Proto)
	}
	r := <-got
	body, _ := io.ReadAll(r.Body)
	if r.RequestURI != "/a%20b?c=d" || r.Host != "example.test:8443" || string(body) != strings.Repeat("body ", 50000) || r.Trailer.Get("X-Sum") != "7" {
		t.Errorf("%s %s, %d bytes, %v", r.RequestURI, r.Host, len(body), r.Trailer)
	}
	for name, want := range map[string]string{
		"X-One": "1|2", "Cookie": "a=b; c=d", "X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "example.test:8443",
		"Forwarded": `for=127.0.0.1;host="example.test:8443";proto=https`, "X-Real-Ip": "", "Te": "", "User-Agent": "", "Authorization": "x", "Connection": "", "Expect": "",
	} {
		if v := strings.Join(r.Header[name], "|"); v != want {
			t.Errorf("%s: %q, want %q", name, v, want)
		}
	}
	if via := r.Header["Via"]; len(via) != 1 {
		t.Errorf("Via: %q", via)
	}
}

// An answer arrives as it was given: heads that come before it, bodies as they are written,
// trailers, none for HEAD, 204 and 304; fields of the connection do not.
func TestHTTP2Answer(t *testing.T) {
	t.Parallel()
	next := make(chan string)
	addr := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		switch r.URL.Path {
		case "/stream":
			h.Set("Link", "</a>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			h.Del("Link")
			h.Set("Trailer", "X-Sum")
			h.Set("Keep-Alive", "timeout=5")
			w.WriteHeader(http.StatusCreated)
			w.(http.Flusher).Flush()
			for piece := range next {
				_, _ = io.WriteString(w, piece)
				w.(http.Flusher).Flush()
			}
			h.Set("X-Sum", "9")
		case "/echo": // while the request goes on
			_ = http.NewResponseController(w).EnableFullDuplex()
			w.(http.Flusher).Flush()
			buf := make([]byte, 100)
			for {
				n, err := r.Body.Read(buf)
				_, _ = w.Write(buf[:n])
				w.(http.Flusher).Flush()
				if err != nil {
					return
				}
			}
		case "/204":
			w.WriteHeader(http.StatusNoContent)
		case "/304":
			w.WriteHeader(http.StatusNotModified)
		case "/broken", "/broken-chunks": // of which the client knows no length
			if r.URL.Path == "/broken" {
				h.Set("Content-Length", "10")
			}
			_, _ = io.WriteString(w, "abc")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		default:
			h.Set("Content-Length", "11")
			h["Content-Type"] = nil
			_, _ = io.WriteString(w, "<html>hello")
		}
	})
	s := start(t, overHTTP2(t), addr)
	c := client2(t)
	url := "https://" + s.addr

	hints := 0
	req := request(t, "GET", url+"/stream", nil)
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		if code == 103 && h.Get("Link") != "" {
			hints++
		}
		return nil
	}}))
	resp, err := c.Do(req)
	must(t, err)
	buf := make([]byte, 10)
	for _, piece := range []string{"one", "two", "three"} {
		next <- piece
		if n, err := io.ReadFull(resp.Body, buf[:len(piece)]); string(buf[:n]) != piece {
			t.Fatalf("%q %v", buf[:n], err)
		}
	}
	close(next)
	if rest, err := io.ReadAll(resp.Body); len(rest) > 0 || err != nil || resp.Trailer.Get("X-Sum") != "9" {
		t.Errorf("%q %v %v", rest, err, resp.Trailer)
	}
	if hints != 1 || resp.StatusCode != 201 || resp.Header["Keep-Alive"] != nil || resp.Header["Link"] != nil {
		t.Errorf("%d hints, %s %v", hints, resp.Status, resp.Header)
	}

	up, in := io.Pipe()
	resp, err = c.Do(request(t, "POST", url+"/echo", up))
	must(t, err)
	for _, piece := range []string{"alpha", "beta"} {
		_, _ = io.WriteString(in, piece)
		if n, err := io.ReadFull(resp.Body, buf[:len(piece)]); string(buf[:n]) != piece {
			t.Fatalf("echo: %q %v", buf[:n], err)
		}
	}
	in.Close()
	if rest, err := io.ReadAll(resp.Body); len(rest) > 0 || err != nil {
		t.Errorf("echo: %q %v", rest, err)
	}

	for _, q := range []struct {
		method, path string
		status       int
		length       int64
		body         string
	}{
		{"GET", "/", 200, 11, "<html>hello"}, {"HEAD", "/", 200, 11, ""}, {"GET", "/204", 204, 0, ""}, {"GET", "/304", 304, 0, ""},
	} {
		resp, body := do(t, c, request(t, q.method, url+q.path, nil))
		if resp.StatusCode != q.status || body != q.body || resp.ContentLength != q.length && q.status == 200 || resp.Header["Content-Type"] != nil && q.path == "/" {
			t.Errorf("%s %s: %s %q %v", q.method, q.path, resp.Status, body, resp.Header)
		}
	}
	for _, path := range []string{"/broken", "/broken-chunks"} {
		resp, err = c.Do(request(t, "GET", url+path, nil))
		must(t, err)
		if body, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("%s: an answer that breaks off is %q", path, body)
		}
		resp.Body.Close()
	}
	if n := s.front.Conns.Open(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// An upstream is released when the client gives up its request, and the connection continues.
func TestHTTP2ClientGivesUp(t *testing.T) {
	t.Parallel()
	asked, left := make(chan struct{}), make(chan struct{})
	addr := serveRaw(t, func(c net.Conn, n int) {
		r := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			if req.URL.Path == "/slow" {
				asked <- struct{}{}
				_, _ = r.ReadByte() // until it is closed
				left <- struct{}{}
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	s := start(t, overHTTP2(t), addr)
	c := client2(t)
	for range 3 {
		req := request(t, "GET", "https://"+s.addr+"/slow", nil)
		cancel := make(chan struct{})
		req.Cancel = cancel //nolint:staticcheck // shorter than a context
		go func() {
			<-asked
			close(cancel)
		}()
		if _, err := c.Do(req); err == nil {
			t.Error("it is answered")
		}
		<-left
		if _, body := do(t, c, request(t, "GET", "https://"+s.addr+"/", nil)); body != "ok" {
			t.Error(body)
		}
	}
	rawhttp.Eventually(t, func() bool { return s.front.Conns.Streams() == 0 })
	if n := s.front.Conns.Open(); n != 1 || s.Stats().Left != 3 {
		t.Errorf("%d connections, %+v", n, s.Stats())
	}
}

// A denied client gets its denial although the body has not come, and nothing of the request is left.
func TestHTTP2DeniedWithoutItsBody(t *testing.T) {
	t.Parallel()
	s := start(t, overHTTP2(t), serveHTTP(t, func(http.ResponseWriter, *http.Request) {}))
	c := client2(t)
	for i := range 6 {
		body, end := io.Pipe()
		req := request(t, "POST", "https://"+s.addr+limitedPath, body)
		req.ContentLength = 5
		want := 429
		if i < 3 { // the upstream has it, and wants the body
			want = 200
			go func() {
				_, _ = io.WriteString(end, "hello")
				end.Close()
			}()
		}
		if resp, _ := do(t, c, req); resp.StatusCode != want {
			t.Errorf("request %d: %d", i, resp.StatusCode)
		}
		rawhttp.Eventually(t, func() bool { return s.front.Conns.Streams() == 0 })
	}
}
