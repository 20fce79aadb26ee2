package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// askAs sends a request for each client that a proxy names, over one connection, and returns
// how many are admitted.
func askAs(t *testing.T, p *process, n int, client func(i int) string) (admitted int) {
	t.Helper()
	const pipelined = 128
	c, err := net.Dial("tcp", p.listen)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	answers := bufio.NewReader(c)
	for first := 0; first < n; first += pipelined {
		last := min(first+pipelined, n)
		var b strings.Builder
		for i := first; i < last; i++ {
			fmt.Fprintf(&b, "GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: %s\r\n\r\n", client(i))
		}
		if _, err := io.WriteString(c, b.String()); err != nil {
			t.Fatal(err)
		}
		for range last - first {
			resp, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			if resp.StatusCode == http.StatusOK {
				admitted++
			}
		}
	}
	return admitted
}

// An attacker who rotates addresses, each below its limit, gets what the bucket of its
// network admits, and the network is banned; without prefixes it gets everything. A
// neighbour in the next network notices nothing.
func TestRotationOverHTTP(t *testing.T) {
	t.Parallel()
	const burst, members = 10, 16
	for _, tt := range []struct {
		name, prefixes  string
		requests        int
		client          func(i int) string
		made, neighbour string
	}{
		{"65536 /64s of a /48", "v6: [48]", 65536, func(i int) string { return fmt.Sprintf("2001:db8:1:%x::1", i) }, "per-ip/48", "2001:db8:2::1"},
		{"256 addresses of a /24", "v4: [24]", 256 * burst, func(i int) string { return fmt.Sprintf("192.0.2.%d", i%256) }, "per-ip/24", "192.0.3.1"},
		{"256 /24s of a /16", "v4: [24, 16]", 256 * burst * 10, func(i int) string { return fmt.Sprintf("198.51.%d.%d", i%256, i/256%256) }, "per-ip/16", "198.52.0.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file := func(prefixes string) string {
				return fmt.Sprintf("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nmemory: 32MiB\ntrusted_proxies: [127.0.0.1]\nrules:\n"+
					"- {name: per-ip, rate: %d/d, burst: %d, strict: true, ban: {after: 50, for: 1h%s}}\n", burst, burst, prefixes)
			}
			start := time.Now()
			p := serveFile(t, file(fmt.Sprintf(", prefixes: {%s, members: %d}", tt.prefixes, members)))
			got := askAs(t, p, tt.requests, tt.client)
			// What leaks meanwhile is admitted too: one in nine minutes.
			leaked := int(time.Since(start) * burst * members / (24 * time.Hour))
			if got < burst*members || got > burst*members+leaked {
				t.Errorf("%d of %d requests admitted, want %d", got, tt.requests, burst*members)
			}
			if n := askAs(t, p, 2*burst, func(int) string { return tt.neighbour }); n != burst {
				t.Errorf("%d of %d requests of the neighbour admitted, want %d", n, 2*burst, burst)
			}
			_, metrics := getFrom(t, http.DefaultClient, "http://"+p.admin+"/metrics")
			banned := fmt.Sprintf("fastlimit_decisions_total{decision=\"deny\",mode=\"enforce\",rule=%q,stage=\"ban\"} %d\n", tt.made, tt.requests-got-49)
			if !strings.Contains(metrics, banned) {
				t.Errorf("the metrics do not have %s", banned)
			}
			if n := askAs(t, serveFile(t, file("")), tt.requests, tt.client); n != tt.requests {
				t.Errorf("without prefixes %d of %d requests admitted", n, tt.requests)
			}
			t.Logf("%d of %d requests admitted, without prefixes all", got, tt.requests)
		})
	}
}
