package server

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/policy"
)

// Bad requests count for their peer, and ban it, each kind of them; not for others, not what a
// trusted proxy passes on, not a connection on which nothing was sent, and not where that is
// switched off. They are charged by rules for the address that hold for all requests alone.
func TestBadRequestsAreCharged(t *testing.T) {
	t.Parallel()
	const proxied = "X-Forwarded-For: 192.0.2.7\r\n\r\n"
	charged := func(request string) func(*Config, *policy.Settings) (string, int) {
		return func(*Config, *policy.Settings) (string, int) { return request, 3 }
	}
	for name, tt := range map[string]func(c *Config, set *policy.Settings) (request string, units int){
		"no host":       charged("GET / HTTP/1.1\r\n\r\n"),
		"both lengths":  charged("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
		"target":        charged("GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n"),
		"host":          charged("GET / HTTP/1.1\r\nHost: a..b\r\n\r\n"),
		"version":       charged("GET / HTTP/9.9\r\nHost: a\r\n\r\n"),
		"long head":     charged("GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("a", 40_000) + "\r\n\r\n"),
		"chunk":         charged("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
		"half a header": charged("GET / HTTP/1.1\r\nHost:"),
		"half a body":   charged("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc"),
		"nothing":       func(*Config, *policy.Settings) (string, int) { return "", 0 },
		"ignored": func(c *Config, _ *policy.Settings) (string, int) {
			c.BadRequests = IgnoreBadRequests
			return "GET / HTTP/1.1\r\n\r\n", 0
		},
		"trusted": func(_ *Config, set *policy.Settings) (string, int) {
			set.TrustedProxies = loopback()
			return "GET /%zz HTTP/1.1\r\nHost: a\r\n" + proxied, 0
		},
		"a rule with a match": func(_ *Config, set *policy.Settings) (string, int) {
			set.Rules[0].Match.Paths = []string{"/*"}
			return "GET / HTTP/1.1\r\n\r\n", 0
		},
		"a rule for all": func(_ *Config, set *policy.Settings) (string, int) {
			set.Rules[0].Key = []policy.KeyPart{{Kind: policy.KeyGlobal}}
			return "GET / HTTP/1.1\r\n\r\n", 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := perIP()
			set.Rules[0].Limit.Ban = fastlimit.BanPolicy{After: 2, For: time.Hour}
			var c Config
			request, units := tt(&c, &set)
			s := start(t, set, func(made *Config) {
				made.BadRequests, made.Connections.HeaderTimeout = c.BadRequests, time.Second
				c.Limiter = made.Limiter
			})
			r := c.Limiter.Rules()[0]
			t.Run("requests", func(t *testing.T) {
				for range 6 {
					t.Run("", func(t *testing.T) {
						t.Parallel() // some take a second each
						if all := raw(t, s.addr, request); len(all) != 1 || all[0].StatusCode < 400 || all[0].StatusCode == 429 {
							t.Errorf("answered %v", all)
						}
					})
				}
			})
			key := r.AddrKey(netip.MustParseAddr("127.0.0.1"))
			if name == "a rule for all" {
				key = r.BytesKey([]byte("global"))
			}
			left, banned := r.Peek(key, 1).Remaining, false
			if _, banned = (*engine.Rule)(r).Banned(engine.Key(key)); banned != (units > 0) || units == 0 && left != 3 {
				t.Errorf("banned: %v, %d left", banned, left)
			}
			admitted := uint64(0)
			for _, n := range r.Stats().Allowed {
				admitted += n
			}
			if admitted != uint64(units) {
				t.Errorf("%d units were charged, want %d", admitted, units)
			}
			want := map[bool]int{true: 429, false: 200}[banned]
			if resp := get(t, "http://"+s.addr+"/"); resp.StatusCode != want {
				t.Errorf("a good request got %d, want %d", resp.StatusCode, want)
			}
			other := dialFrom(t, "127.0.0.3", s.addr)
			if status := ask(other); status != 200 && name != "a rule for all" {
				t.Errorf("another client got %d", status)
			}
			other.Close()
		})
	}
}
