package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/breakdown"
)

const jsonType, textType, problemType = "application/json", "text/plain; charset=utf-8", "application/problem+json"

// fixed is a front whose server is made of constants.
func fixed(change ...func(*Config)) *Front {
	c := Config{
		Listen:  func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") },
		Log:     slog.New(slog.DiscardHandler),
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "a 1\n") }),
		Ready:   func() error { return nil },
		Info:    func() Info { return Info{Version: "v1"} },
		Top: func(q TopQuery) (Top, error) {
			if q.Rule == "none" {
				return Top{}, errors.New("no rule")
			}
			return Top{Clients: []TopClient{{Key: "a", Rule: q.Rule, Mode: q.Sort}, {Key: "b"}, {Key: "c"}}[:min(q.N, 3)]}, nil
		},
		Batch: func(_ context.Context, body []byte) ([]byte, error) {
			if string(body) == "bad" {
				return nil, errors.New("a reason")
			}
			return append([]byte("re: "), body...), nil
		},
		MaxBatchBytes: 8,
		History:       func() History { return History{Minutes: []Minute{}} },
		TopBy:         func(by breakdown.By, _ int) TopBy { return TopBy{By: by.String()} },
	}
	for _, f := range change {
		f(&c)
	}
	return New(c)
}

// ask answers without a network. Headers come in pairs; Host is one of them.
func ask(f *Front, method, path, body string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	w := httptest.NewRecorder()
	f.http.Handler.ServeHTTP(w, r)
	return w.Result()
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	f := fixed()
	for _, c := range []struct {
		method, path, body string
		status             int
		media, reply       string // a part of it
	}{
		{"GET", "/livez", "", 200, textType, "ok\n"},
		{"GET", "/readyz", "", 200, textType, "ok\n"},
		{"HEAD", "/readyz", "", 200, textType, ""},
		{"GET", "/metrics", "", 200, textType, "a 1\n"},
		{"GET", "/v1/info", "", 200, jsonType, "{\n  \"version\": \"v1\",\n"},
		{"GET", "/v1/top", "", 200, jsonType, `"key":"c","rate":0,`},
		{"GET", "/v1/top?n=2", "", 200, jsonType, `"key":"b","rate":0,"error":0,"denied":0,"limit":null,"share":null,"mode":"","banned_for":0,"nodes":null,"key_parts":null}],"totals":{`},
		{"GET", "/v1/top?sort=denied&rule=r", "", 200, jsonType, `{"clients":[{"rule":"r","key":"a",`},
		{"GET", "/v1/top?sort=share&n=1", "", 200, jsonType, `"mode":"share"`},
		{"GET", "/v1/top?n=1000", "", 200, jsonType, `{"clients":`},
		{"POST", "/v1/decide", "12345678", 200, jsonType, "re: 12345678\n"},
		{"POST", "/v1/decide", "bad", 400, problemType, "a reason"},
		{"POST", "/v1/decide", "123456789", 413, problemType, "send at most 8 bytes"},
		{"POST", "/v1/reload", "", 403, problemType, "token"},
		{"POST", "/v1/key", `{"value":"x"}`, 403, problemType, "token"},
		{"GET", "/debug/pprof/", "", 200, "text/html; charset=utf-8", "goroutine"},
		{"GET", "/debug/pprof/heap?debug=1", "", 200, textType, "heap profile"},
		{"GET", "/debug/pprof/cmdline", "", 200, textType, "admin.test"},
		{"GET", "/debug/pprof/symbol", "", 200, textType, "num_symbols"},
		{"GET", "/v1/reload", "", 405, textType, ""},
		{"GET", "/v1/decide", "", 405, textType, ""},
		{"POST", "/livez", "", 405, textType, ""},
		{"POST", "/debug/pprof/profile", "", 405, textType, ""},
		{"DELETE", "/v1/info", "", 405, textType, ""},
		{"GET", "/nothing", "", 404, textType, ""},
		{"GET", "/v1/info/", "", 404, textType, ""},
		{"GET", "/v1/top?n=0", "", 400, problemType, "n=0: want a whole number from 1 to 1000"},
		{"GET", "/v1/top?n=", "", 400, problemType, "whole number"},
		{"GET", "/v1/top?n=-1", "", 400, problemType, "whole number"},
		{"GET", "/v1/top?n=1001", "", 400, problemType, "whole number"},
		{"GET", "/v1/top?n=1e2", "", 400, problemType, "whole number"},
		{"GET", "/v1/top?n=99999999999999999999", "", 400, problemType, "whole number"},
		{"GET", "/v1/top?sort=", "", 400, problemType, "sort=: want one of rate, denied, share, key"},
		{"GET", "/v1/top?sort=%1b", "", 400, problemType, `sort=\\x1b: want`},
		{"GET", "/v1/top?rule=none", "", 404, problemType, "no rule"},
		{"GET", "/v1/top?n=%0a%1b", "", 400, problemType, `n=\\n\\x1b: want`},
	} {
		resp := ask(f, c.method, c.path, c.body, "Content-Type", jsonType)
		b, _ := io.ReadAll(resp.Body)
		media := resp.Header.Get("Content-Type")
		if media == "" {
			media = http.DetectContentType(b) // as net/http does on a network
		}
		if resp.StatusCode != c.status || media != c.media || !strings.Contains(string(b), c.reply) {
			t.Errorf("%s %s: got %d %s %.200q, want %d %s with %q", c.method, c.path, resp.StatusCode, media, b, c.status, c.media, c.reply)
		}
		if (c.status == 405) != (resp.Header.Get("Allow") != "") {
			t.Errorf("%s %s: Allow is %q", c.method, c.path, resp.Header.Get("Allow"))
		}
		document := c.media == jsonType || c.media == problemType
		if (resp.Header.Get("Cache-Control") == "no-store") != document || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s: headers %v", c.method, c.path, resp.Header)
		}
		if c.media == problemType && !json.Valid(b) {
			t.Errorf("%s %s: no JSON: %s", c.method, c.path, b)
		}
	}
}

// What the server's parts say goes to the operator: why it is not ready, that no
// client is tracked, and what cannot be encoded.
func TestWhatPartsSay(t *testing.T) {
	t.Parallel()
	f := fixed(func(c *Config) {
		c.Ready = func() error { return errors.New("draining") }
		c.Top = func(TopQuery) (Top, error) { return Top{}, ErrNotTracked }
		c.Info = func() Info { return Info{Memory: Memory{Go: func() {}}} }
	})
	broken := fixed(func(c *Config) {
		c.Top = func(TopQuery) (Top, error) { return Top{Clients: []TopClient{{Rate: math.NaN()}}}, nil }
	})
	for _, c := range []struct {
		front  *Front
		path   string
		status int
		reply  string
	}{
		{f, "/readyz", 503, "draining"},
		{f, "/livez", 200, "ok"},
		{f, "/v1/top", 404, "top_talkers is 0"},
		{f, "/v1/info", 500, "unsupported type"},
		{broken, "/v1/top", 500, "unsupported value"},
	} {
		resp := ask(c.front, "GET", c.path, "")
		if b, _ := io.ReadAll(resp.Body); resp.StatusCode != c.status || !strings.Contains(string(b), c.reply) {
			t.Errorf("%s: %d %s", c.path, resp.StatusCode, b)
		}
	}
}

// A page of another site gets nothing, not even by reading: a profile costs a minute of work. Package guard
// knows which headers identify such a page.
func TestOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	f := fixed(func(c *Config) {
		c.Batch = func(context.Context, []byte) ([]byte, error) { return nil, errors.New("called") }
	})
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/profile?seconds=1", "/debug/pprof/trace?seconds=1", "/debug/pprof/heap", "/v1/top", "/v1/info", "/metrics", "/readyz", "/livez", "/v1/decide", "/v1/reload", "/"} {
		for _, method := range []string{"GET", "POST"} {
			for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "http://evil.example"}} {
				if resp := ask(f, method, path, "", headers...); resp.StatusCode != 403 || resp.Header.Get("Content-Type") != problemType {
					t.Errorf("%s %s with %q: %d %s", method, path, headers, resp.StatusCode, resp.Header.Get("Content-Type"))
				}
			}
		}
	}
	if resp := ask(f, "POST", "/v1/decide", "{}", "Content-Type", "text/plain"); resp.StatusCode != 415 {
		t.Errorf("a form posted to /v1/decide: %d", resp.StatusCode)
	}
}

// On a loopback address a foreign name is a page that has rebound its own.
func TestReboundNames(t *testing.T) {
	t.Parallel()
	f := fixed()
	for _, c := range []struct {
		local  string // address of the listener
		host   string
		status int
	}{
		{"127.0.0.1", "evil.example:8081", 421},
		{"::1", "evil.example", 421},
		{"127.0.0.1", "localhost:8081", 200},
		{"127.0.0.1", "[::1]:8081", 200},
		{"192.0.2.1", "limiter.example", 200}, // has a name in DNS by right
	} {
		r := httptest.NewRequest("GET", "/livez", nil)
		r.Host = c.host
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(c.local)}))
		w := httptest.NewRecorder()
		if f.http.Handler.ServeHTTP(w, r); w.Code != c.status {
			t.Errorf("%s on %s: %d %s", c.host, c.local, w.Code, w.Body)
		}
	}
}

// A panic in what the listener shows ends one call, not the process, and is logged.
// A drain does not wait for calls that take long.
func TestServeAndDrain(t *testing.T) {
	t.Parallel()
	var logs strings.Builder
	entered, finish := make(chan bool), make(chan bool)
	f := fixed(func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(&logs, nil))
		c.Info = func() Info { panic("a bug") }
		c.Ready = func() error {
			entered <- true
			<-finish
			return nil
		}
	})
	if f.Close(); f.Addr() != nil {
		t.Error("an address before Listen")
	}
	if err := f.Listen(); err != nil {
		t.Fatal(err)
	}
	served := make(chan bool)
	go func() {
		f.Begin(func(err error) { t.Error(err) })
		f.Serve(t.Context())
		served <- true
	}()
	get := func(path string) error {
		client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Get("http://" + f.Addr().String() + path)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	if err := get("/v1/info"); !errors.Is(err, io.EOF) {
		t.Errorf("a panic: %v", err)
	}
	if err := get("/livez"); err != nil {
		t.Errorf("after a panic: %v", err)
	}
	slow := make(chan error)
	go func() { slow <- get("/readyz") }()
	<-entered
	if cut := f.Drain(time.Hour, time.Hour); cut != 0 {
		t.Errorf("%d cut", cut)
	}
	if err := <-slow; !errors.Is(err, io.EOF) {
		t.Errorf("a call that outlasts the drain: %v", err)
	}
	close(finish)
	<-served
	if !strings.Contains(logs.String(), "a bug") {
		t.Errorf("logs: %s", logs.String())
	}
}

// A listener that breaks is not a drain.
func TestServeFails(t *testing.T) {
	t.Parallel()
	f := fixed()
	if err := f.Listen(); err != nil {
		t.Fatal(err)
	}
	f.ln.Close()
	var failed error
	f.Begin(func(err error) { failed = err })
	f.Serve(t.Context())
	if !errors.Is(failed, net.ErrClosed) {
		t.Errorf("got %v", failed)
	}
	if f.Close(); f.Addr() != nil {
		t.Error("an address after Close")
	}
	f.Config.Listen = func() (net.Listener, error) { return nil, errors.New("taken") }
	if err := f.Listen(); err == nil || f.Addr() != nil {
		t.Errorf("a failed Listen: %v, %v", err, f.Addr())
	}
}

// Flags may have passwords, such as that of --redis.
func TestCmdlineHasNoFlags(t *testing.T) {
	t.Parallel()
	rec := httptest.NewRecorder()
	fixed().routes().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/debug/pprof/cmdline", http.NoBody))
	if got, want := rec.Body.String(), filepath.Base(os.Args[0]); rec.Code != http.StatusOK || got != want {
		t.Errorf("%d %q, want %q", rec.Code, got, want)
	}
}
