package server_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server"
)

// A decision service in a program of your own: a rule, the policy that says whom
// it limits, a listener, and a drain at the end.
func ExampleNew() {
	settings := policy.Settings{Rules: []policy.RuleSpec{{
		Limit: fastlimit.RuleConfig{Name: "per-ip", Rate: fastlimit.Rate{N: 1, Per: time.Second}, Burst: 2, Strict: true},
		Key:   []policy.KeyPart{{Kind: policy.KeyIP}},
	}}}
	lim, err := fastlimit.New(fastlimit.Config{Rules: settings.Limits()})
	if err != nil {
		log.Fatal(err)
	}
	engine, err := policy.New(lim, settings)
	if err != nil {
		log.Fatal(err)
	}
	identity, err := policy.NewIdentity(settings)
	if err != nil {
		log.Fatal(err)
	}
	srv, err := server.New(server.Config{
		Listeners: []server.Listener{{Address: "127.0.0.1:0"}},
		Limiter:   lim, Engine: engine, Identity: identity,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := srv.Listen(); err != nil { // so that the address is known
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- srv.Serve(ctx) }()

	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 3 {
		resp, err := client.Get("http://" + srv.Addrs()[0].String())
		if err != nil {
			log.Fatal(err)
		}
		resp.Body.Close()
		fmt.Printf("%d [%s]\n", resp.StatusCode, resp.Header.Get("RateLimit"))
	}
	stop()
	fmt.Println("drained:", <-served)
	// Output:
	// 200 []
	// 200 []
	// 429 ["per-ip";r=0;t=1]
	// drained: <nil>
}
