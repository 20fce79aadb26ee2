package nethttp_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/middleware/nethttp"
)

func Example() {
	lim, err := fastlimit.New(fastlimit.Config{Rules: []fastlimit.RuleConfig{{
		Name: "per-ip", Rate: fastlimit.Rate{N: 1, Per: time.Second}, Burst: 2, Strict: true,
	}}})
	if err != nil {
		log.Fatal(err)
	}
	rule, _ := lim.Rule("per-ip")
	limited, err := nethttp.New(nethttp.Config{Rule: rule})
	if err != nil {
		log.Fatal(err)
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	srv := httptest.NewServer(limited.Wrap(hello))
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
