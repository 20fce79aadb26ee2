package recipes_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// standIn asks as Traefik, APISIX or Envoy do, which neither Debian nor a Go module
// of a reasonable size has: question and the rest follow their documentation and
// source (forward.go of Traefik 3, forward-auth.lua of APISIX 3,
// ext_authz_http_impl.cc and async_client_impl.cc of Envoy), by the settings in the
// recipe. What they do around it is not shown by these tests.
type standIn struct {
	limiter  string
	patience time.Duration
	question func(r *http.Request, client string) string // the bytes of the request to fastlimit
	admits   func(status int) bool
	broken   func(status int) bool // is taken for no answer
	told     func(field string) bool
	open     bool
	onError  int
	next     http.Handler
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	client, _, _ := net.SplitHostPort(r.RemoteAddr) // of httptest, always valid
	resp, body, err := s.ask(s.question(r, client))
	switch {
	case err != nil || s.broken(resp.StatusCode):
		if s.open {
			s.next.ServeHTTP(w, r)
			return
		}
		w.WriteHeader(s.onError)
	case s.admits(resp.StatusCode):
		s.next.ServeHTTP(w, r)
	default:
		for name, values := range resp.Header {
			if s.told(name) {
				w.Header()[name] = values
			}
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = w.Write(body) // to a client that may have left
	}
}

// ask returns the answer to a request, if there is one in time.
func (s *standIn) ask(raw string) (*http.Response, []byte, error) {
	c, err := net.DialTimeout("tcp", s.limiter, s.patience)
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(s.patience)); err != nil {
		return nil, nil, err
	}
	if _, err := io.WriteString(c, raw); err != nil {
		return nil, nil, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, body, err
}

// startStandIn serves s in front of the app.
func startStandIn(t *testing.T, s *standIn, o *options) string {
	t.Helper()
	s.limiter = o.limiter
	if !o.inTime {
		s.patience = hang
	}
	s.next = httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: o.app})
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// parse reads the part of a recipe between begin and end, which must have no
// setting that the stand-in does not know.
func parse(t *testing.T, file, begin, end string, settings any) {
	t.Helper()
	text := edited(t, file)
	_, text, ok := strings.Cut(text, begin)
	part, _, ok2 := strings.Cut(text, end)
	if !ok || !ok2 {
		t.Fatalf("%s: no part from %q to %q", file, begin, end)
	}
	if err := yaml.NewDecoder(bytes.NewReader([]byte(part)), yaml.Strict()).Decode(settings); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func success(status int) bool { return status >= 200 && status < 300 }
func never(int) bool          { return false }

func startTraefik(t *testing.T, o options) string {
	t.Helper()
	var c struct {
		Address            string   `yaml:"address"`
		TrustForwardHeader bool     `yaml:"trustForwardHeader"`
		AuthRequestHeaders []string `yaml:"authRequestHeaders"`
	}
	parse(t, "traefik.yaml", "forwardAuth:\n", "  services:", &c)
	if c.Address != "http://127.0.0.1:8080/" || c.TrustForwardHeader || len(c.AuthRequestHeaders) == 0 {
		t.Fatalf("the stand-in does not know how Traefik asks with %+v", c)
	}
	return startStandIn(t, &standIn{
		patience: 30 * time.Second, admits: success, broken: never, onError: 500,
		told: func(field string) bool { return field != "Connection" },
		question: func(r *http.Request, client string) string {
			h := http.Header{"User-Agent": {"Go-http-client/1.1"}, "Accept-Encoding": {"gzip"}}
			for _, name := range c.AuthRequestHeaders {
				h[name] = r.Header.Values(name)
			}
			h.Set("X-Forwarded-For", client)
			h.Set("X-Forwarded-Method", r.Method)
			h.Set("X-Forwarded-Proto", "http")
			if r.Host != "" {
				h.Set("X-Forwarded-Host", r.Host)
			}
			h.Set("X-Forwarded-Uri", r.URL.RequestURI())
			return request("GET", "/", o.limiter, h)
		},
	}, &o)
}

func startAPISIX(t *testing.T, o options) string {
	t.Helper()
	var c struct {
		URI              string   `yaml:"uri"`
		Timeout          int      `yaml:"timeout"`
		KeepalivePool    int      `yaml:"keepalive_pool"`
		AllowDegradation bool     `yaml:"allow_degradation"`
		StatusOnError    int      `yaml:"status_on_error"`
		RequestHeaders   []string `yaml:"request_headers"`
		ClientHeaders    []string `yaml:"client_headers"`
	}
	parse(t, "apisix.yaml", "forward-auth:\n", "    upstream:", &c)
	if c.URI != "http://127.0.0.1:8080/" || !c.AllowDegradation || len(c.RequestHeaders) > 0 {
		t.Fatalf("the stand-in does not know how APISIX asks with %+v", c)
	}
	return startStandIn(t, &standIn{
		patience: time.Duration(c.Timeout) * time.Millisecond, admits: success, broken: never,
		open: c.AllowDegradation && !o.closed, onError: c.StatusOnError,
		told: func(field string) bool {
			return slices.ContainsFunc(c.ClientHeaders, func(name string) bool { return strings.EqualFold(name, field) })
		},
		question: func(r *http.Request, client string) string {
			if real := r.Header.Get("X-Real-Ip"); client == "127.0.0.1" && net.ParseIP(real) != nil {
				client = real // real_ip_from as shipped
			}
			host := r.URL.Host
			if host == "" {
				host = r.Host
			}
			host, _, _ = strings.Cut(strings.ToLower(host), ":") // $host of nginx
			return request("GET", "/", o.limiter, http.Header{
				"User-Agent":         {"lua-resty-http/0.17.2 (Lua) ngx_lua/10028"},
				"X-Forwarded-Proto":  {"http"},
				"X-Forwarded-Method": {r.Method},
				"X-Forwarded-Host":   {host},
				"X-Forwarded-Uri":    {r.RequestURI},
				"X-Forwarded-For":    {client},
			})
		},
	}, &o)
}

func startEnvoy(t *testing.T, o options) string {
	t.Helper()
	var c struct {
		Type             string            `yaml:"@type"`
		API              string            `yaml:"transport_api_version"`
		FailureModeAllow bool              `yaml:"failure_mode_allow"`
		StatusOnError    map[string]string `yaml:"status_on_error"`
		HTTPService      struct {
			ServerURI struct{ URI, Cluster, Timeout string } `yaml:"server_uri"`
			Request   struct {
				Add []struct{ Key, Value string } `yaml:"headers_to_add"`
			} `yaml:"authorization_request"`
		} `yaml:"http_service"`
	}
	parse(t, "envoy.yaml", "ext_authz\n                    typed_config:\n", "                  - name: envoy.filters.http.router", &c)
	add, uri := c.HTTPService.Request.Add, c.HTTPService.ServerURI
	if !c.FailureModeAllow || c.StatusOnError["code"] != "ServiceUnavailable" || uri.Cluster != "fastlimit" ||
		len(add) != 1 || add[0].Value != "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%" {
		t.Fatalf("the stand-in does not know how Envoy asks with %+v", c)
	}
	patience, err := time.ParseDuration(uri.Timeout)
	if err != nil {
		t.Fatal(err)
	}
	return startStandIn(t, &standIn{
		patience: patience, open: !o.closed, onError: 503,
		admits: func(status int) bool { return status == 200 },
		broken: func(status int) bool { return status >= 500 },
		told:   func(field string) bool { return field != "Host" },
		question: func(r *http.Request, client string) string {
			h := http.Header{
				"content-length":                 {"0"},
				"x-envoy-internal":               {"true"},
				"x-forwarded-for":                {"198.51.100.1"}, // Envoy's own
				"x-envoy-expected-rq-timeout-ms": {"100"},
				add[0].Key:                       {client},
			}
			if auth := r.Header.Get("Authorization"); auth != "" {
				h["authorization"] = []string{auth}
			}
			return request(r.Method, r.URL.RequestURI(), r.Host, h)
		},
	}, &o)
}

// request is a request without a body, as it is sent.
func request(method, target, host string, h http.Header) string {
	var b strings.Builder
	b.WriteString(method + " " + target + " HTTP/1.1\r\nHost: " + host + "\r\n")
	for name, values := range h {
		for _, v := range values {
			b.WriteString(name + ": " + v + "\r\n")
		}
	}
	b.WriteString("\r\n")
	return b.String()
}
