package main

import (
	"sync"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// TestRLSRedis: two processes and upstream count together in one Redis; while it is stopped,
// away or not there at the start, calls succeed all the same.
func TestRLSRedis(t *testing.T) {
	t.Parallel()
	const limit = "domain: shop\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 100}}]\n"
	server := redistest.Start(t)
	env := []string{"REDIS_URL=" + server.Addr, "CACHE_KEY_PREFIX=p", "FASTLIMIT_STORE_TIMEOUT=2s"}
	a, b := startRLS(t, map[string]string{"config/a.yaml": limit}, env...), startRLS(t, map[string]string{"config/a.yaml": limit}, env...)
	ca, cb := a.dial(t, insecure.NewCredentials()), b.dial(t, insecure.NewCredentials())
	if got := [3]int{remaining(t, ca, "user", "x"), remaining(t, cb, "user", "x"), remaining(t, ca, "user", "x")}; got != [3]int{99, 98, 97} {
		t.Errorf("two processes: %v", got)
	}
	key := server.Do("KEYS", "pshop_user_x_*")
	if server.Do("INCRBY", key, "10") != "13" || remaining(t, cb, "user", "x") != 86 {
		t.Errorf("another program's hits do not count: %s", key)
	}
	var group sync.WaitGroup
	for _, c := range []*grpc.ClientConn{ca, cb} {
		group.Go(func() {
			for range 40 {
				if _, err := ask(t.Context(), c, "shop", "user", "y"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if got := remaining(t, ca, "user", "y"); got != 19 {
		t.Errorf("%d left after 81 hits of two processes", got)
	}
	server.Stop()
	for want := range 3 { // each waits for two seconds, or until it is known that Redis does not answer
		if got := remaining(t, ca, "user", "z"); got != 99-want {
			t.Errorf("stopped: %d left, want %d", got, 99-want)
		}
	}
	server.Continue()
	server.Kill()
	if got := remaining(t, cb, "user", "z"); got != 99 || page(t, "GET", "http://"+b.http+"/healthcheck", "") != "200 OK" {
		t.Errorf("away: %d left, or not healthy", got)
	}
	late := startRLS(t, map[string]string{"config/a.yaml": limit}, env...)
	cl := late.dial(t, insecure.NewCredentials())
	if got := remaining(t, cl, "user", "z"); got != 99 {
		t.Errorf("not there at the start: %d left", got)
	}
	server.Run()
	redistest.Eventually(t, "both count together again", func() bool {
		return remaining(t, cl, "user", "w") < 0 || remaining(t, ca, "user", "w") < 0 || server.Do("KEYS", "pshop_user_w_*") != ""
	})
}

// TestRLSEscalates: Redis learns of clients with many hits only, and each process admits some
// more of these.
func TestRLSEscalates(t *testing.T) {
	t.Parallel()
	const limits = "domain: shop\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 20}}, {key: few, rate_limit: {unit: year, requests_per_unit: 9}}]\n"
	server := redistest.Start(t)
	r := startRLS(t, map[string]string{"config/a.yaml": limits}, "REDIS_URL="+server.Addr, "FASTLIMIT_ESCALATE_AT=5", "FASTLIMIT_STORE_TIMEOUT=2s")
	c := r.dial(t, insecure.NewCredentials())
	for i := range 5 {
		if got := remaining(t, c, "user", "x"); got != 15 {
			t.Errorf("hit %d: %d left, want 15", i, got)
		}
	}
	if keys := server.Do("KEYS", "shop*"); keys != "" {
		t.Errorf("Redis has %s", keys)
	}
	for want := 19; want >= 0; want-- {
		if got := remaining(t, c, "user", "x"); got != want {
			t.Errorf("%d left, want %d", got, want)
		}
	}
	if got := [2]int{remaining(t, c, "user", "x"), remaining(t, c, "few", "x")}; got != [2]int{-1, 8} {
		t.Errorf("over its limit, and of a low one: %v", got)
	}
}
