package nethttp_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/middleware/nethttp"
	"github.com/fastlimit/fastlimit/policy"
)

// serve sends requests to a handler, each with one header "Name: value" or none.
func serve(h http.Handler, headers ...string) {
	for _, header := range headers {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = "10.0.0.1:4711"
		if name, value, ok := strings.Cut(header, ": "); ok {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Printf("%d [%s]\n", w.Code, w.Header().Get("RateLimit"))
	}
}

var mux = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })

func Example() {
	lim, err := fastlimit.New(fastlimit.Config{Rules: []fastlimit.RuleConfig{{
		Name: "per-ip", Rate: fastlimit.Rate{N: 1, Per: time.Second}, Burst: 2, Strict: true,
	}}})
	if err != nil {
		log.Fatal(err)
	}
	perIP, _ := lim.Rule("per-ip")
	limited, err := nethttp.New(nethttp.Config{Limits: []nethttp.Limit{{Rule: perIP}}})
	if err != nil {
		log.Fatal(err)
	}
	srv := httptest.NewServer(limited.Wrap(mux))
	defer srv.Close()

	for range 3 {
		resp, err := http.Get(srv.URL)
		if err != nil {
			log.Fatal(err)
		}
		resp.Body.Close()
		fmt.Printf("%d [%s]\n", resp.StatusCode, resp.Header.Get("RateLimit"))
	}
	// Output:
	// 200 []
	// 200 []
	// 429 ["per-ip";r=0;t=1]
}

// A limit by address, and one by API key that costs more for a batch.
func ExampleNew_severalRules() {
	lim, err := fastlimit.New(fastlimit.Config{Rules: []fastlimit.RuleConfig{
		{Name: "per-ip", Rate: fastlimit.Rate{N: 100, Per: time.Second}},
		{Name: "per-key", Rate: fastlimit.Rate{N: 1, Per: time.Second}, Burst: 10, Strict: true},
	}})
	if err != nil {
		log.Fatal(err)
	}
	perIP, _ := lim.Rule("per-ip")
	perKey, _ := lim.Rule("per-key")
	apiKey := func(r *http.Request) (fastlimit.Key, bool) {
		key := r.Header.Get("X-Api-Key")
		return perKey.BytesKey([]byte(key)), key != "" // no key: the rule does not apply
	}
	cost := func(r *http.Request) uint64 {
		if r.URL.Path == "/batch" {
			return 10
		}
		return 1
	}
	limited, err := nethttp.New(nethttp.Config{Limits: []nethttp.Limit{
		{Rule: perIP},
		{Rule: perKey, Key: apiKey, Cost: cost},
	}})
	if err != nil {
		log.Fatal(err)
	}
	batch := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.URL.Path = "/batch"
			h.ServeHTTP(w, r)
		})
	}
	serve(batch(limited.Wrap(mux)), "X-Api-Key: alice", "X-Api-Key: alice", "X-Api-Key: bob", "")
	// Output:
	// 200 []
	// 429 ["per-key";r=0;t=10]
	// 200 []
	// 200 []
}

// Behind a reverse proxy the client is whom the proxy names.
func ExampleConfig_clients() {
	lim, err := fastlimit.New(fastlimit.Config{Rules: []fastlimit.RuleConfig{{
		Name: "per-ip", Rate: fastlimit.Rate{N: 1, Per: time.Second}, Burst: 1, Strict: true,
	}}})
	if err != nil {
		log.Fatal(err)
	}
	perIP, _ := lim.Rule("per-ip")
	clients, err := policy.NewIdentity(policy.Settings{
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	})
	if err != nil {
		log.Fatal(err)
	}
	limited, err := nethttp.New(nethttp.Config{Limits: []nethttp.Limit{{Rule: perIP}}, Clients: clients})
	if err != nil {
		log.Fatal(err)
	}
	serve(limited.Wrap(mux), "X-Forwarded-For: 192.0.2.7", "X-Forwarded-For: 192.0.2.8", "X-Forwarded-For: 1.1.1.1, 192.0.2.7")
	// Output:
	// 200 []
	// 200 []
	// 429 ["per-ip";r=0;t=1]
}

// Health checks are not limited, denials are answered by our own page, and all
// answers tell of the limit.
func ExampleConfig_onDeny() {
	lim, err := fastlimit.New(fastlimit.Config{Rules: []fastlimit.RuleConfig{{
		Name: "per-ip", Rate: fastlimit.Rate{N: 1, Per: time.Second}, Burst: 2, Strict: true,
	}}})
	if err != nil {
		log.Fatal(err)
	}
	perIP, _ := lim.Rule("per-ip")
	limited, err := nethttp.New(nethttp.Config{
		Limits: []nethttp.Limit{{Rule: perIP}},
		Skip:   func(r *http.Request) bool { return r.URL.Path == "/healthz" },
		OnDeny: func(w http.ResponseWriter, _ *http.Request, v *nethttp.Verdict) {
			v.SetHeaders(w.Header())
			http.Error(w, fmt.Sprintf("busy: try again in %v", v.RetryAfter), http.StatusServiceUnavailable)
		},
		OnAllow: func(w http.ResponseWriter, _ *http.Request, v *nethttp.Verdict) { v.SetHeaders(w.Header()) },
	})
	if err != nil {
		log.Fatal(err)
	}
	serve(limited.Wrap(mux), "", "", "")
	// Output:
	// 200 ["per-ip";r=1]
	// 200 ["per-ip";r=0]
	// 503 ["per-ip";r=0;t=1]
}
