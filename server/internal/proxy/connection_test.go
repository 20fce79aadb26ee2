package proxy

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

// A client cannot have rules read a field that the upstream does not get: it would be counted by
// keys of its choice, while the upstream takes it for one that has none. Who the client is
// does not depend on what it names: the proxy in front may have passed on its Connection field.
func TestRulesReadWhatIsPassedOn(t *testing.T) {
	t.Parallel()
	limit := func(name string) fastlimit.RuleConfig {
		return fastlimit.RuleConfig{Name: name, Rate: fastlimit.Rate{N: 1, Per: time.Hour}, Burst: 1, Strict: true}
	}
	const anyValue = "*"
	for _, tt := range []struct {
		name, lines string // with a number in them
		admitted    int    // of four
	}{
		{"a key each", "X-Api-Key: k%[1]d\r\n", 4},
		{"no key", "X-Other: k%[1]d\r\n", 1},
		{"a key that is not passed on", "X-Api-Key: k%[1]d\r\nConnection: x-api-key\r\n", 1},
		{"named among others", "Connection: close, x\r\nConnection: keep-alive ,\tX-API-Key,\r\nX-Api-Key: k%[1]d\r\n", 1},
		{"named in part", "X-Api-Key: k%[1]d\r\nConnection: X-Api, X-Api-Key-2\r\n", 4},
		{"an upgrade is named", "X-Api-Key: k%[1]d\r\nConnection: Upgrade, X-Other\r\nUpgrade: w%[1]d\r\n", 4},
		{"the client is named", "X-Other: %[1]d\r\nConnection: X-Real-IP\r\n", 1},
	} {
		for _, method := range []string{"GET", "POST"} { // POST is not simple
			t.Run(tt.name+" "+method, func(t *testing.T) {
				t.Parallel()
				app := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {})
				s := start(t, func(o *standOptions) {
					o.settings = policy.Settings{
						TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, ClientIPHeader: "X-Real-Ip",
						Rules: []policy.RuleSpec{
							{Limit: limit("keys"), Key: []policy.KeyPart{{Kind: policy.KeyHeader, Name: "X-Api-Key"}}, Match: policy.Match{Headers: []policy.HeaderMatch{{Name: "X-Api-Key", Values: []string{anyValue}}}}},
							{Limit: limit("upgrades"), Key: []policy.KeyPart{{Kind: policy.KeyHeader, Name: "Upgrade"}}, Match: policy.Match{Headers: []policy.HeaderMatch{{Name: "Upgrade", Values: []string{anyValue}}}}},
							{Limit: limit("others"), Key: []policy.KeyPart{{Kind: policy.KeyIP}}, Match: policy.Match{Not: policy.Exemption{Headers: []policy.HeaderMatch{{Name: "X-Api-Key", Values: []string{anyValue}}}}}},
						},
					}
				}, app)
				admitted := 0
				for i := range 4 {
					body := ""
					if method == "POST" {
						body = "Content-Length: 2\r\n"
					}
					lines := tt.lines
					if strings.Contains(lines, "%") {
						lines = fmt.Sprintf(lines, i)
					}
					stream := method + " / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Real-IP: 192.0.2.1\r\n" + body + lines + "\r\n"
					if body != "" {
						stream += "ok"
					}
					all, err := exchangeRaw(t, s.addr, stream)
					must(t, err)
					if strings.HasPrefix(all, "HTTP/1.1 200 ") {
						admitted++
					} else if !strings.HasPrefix(all, "HTTP/1.1 429 ") {
						t.Errorf("%q: %q", stream, all)
					}
				}
				if admitted != tt.admitted {
					t.Errorf("%d of 4 requests were admitted, want %d", admitted, tt.admitted)
				}
			})
		}
	}
}
