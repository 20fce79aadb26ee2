package fasthttplimit_test

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/fastlimit/fastlimit"
	fasthttplimit "github.com/fastlimit/fastlimit/middleware/fasthttp"
	"github.com/valyala/fasthttp"
)

func Example() {
	lim, err := fastlimit.New(fastlimit.Config{Rules: []fastlimit.RuleConfig{{
		Name: "per-ip", Rate: fastlimit.Rate{N: 1, Per: time.Second}, Burst: 2, Strict: true,
	}}})
	if err != nil {
		log.Fatal(err)
	}
	perIP, _ := lim.Rule("per-ip")
	limited, err := fasthttplimit.New(fasthttplimit.Config{Limits: []fasthttplimit.Limit{{Rule: perIP}}})
	if err != nil {
		log.Fatal(err)
	}
	hello := func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("hello") }
	srv := &fasthttp.Server{Handler: limited.Wrap(hello), MaxIdleWorkerDuration: time.Second}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go srv.Serve(ln)
	defer srv.Shutdown()

	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 3 {
		resp, err := client.Get("http://" + ln.Addr().String())
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
