// Package middlewaretest holds helpers that the tests of all middlewares share.
package middlewaretest

import (
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

// Rules are rules "a", "b" and so on of one limiter: strict, 1 an hour, with the
// bursts given.
func Rules(t testing.TB, bursts ...uint64) []*fastlimit.Rule {
	t.Helper()
	c := fastlimit.Config{Memory: 4 << 20}
	for i, burst := range bursts {
		c.Rules = append(c.Rules, fastlimit.RuleConfig{
			Name: string(rune('a' + i)), Rate: fastlimit.Rate{N: 1, Per: time.Hour}, Burst: burst, Strict: true,
		})
	}
	lim, err := fastlimit.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return lim.Rules()
}

// Left is the number of requests that a rule would still admit from an address.
func Left(r *fastlimit.Rule, addr string) int64 {
	key := r.AddrKey(netip.MustParseAddr(addr))
	left := int64(r.Config().Burst)
	for left > 0 && !r.Peek(key, uint64(left)).Allowed {
		left--
	}
	return left
}

// Clients is an identity that trusts proxies within one prefix.
func Clients(t testing.TB, proxies string, unnamed policy.UnnamedAction) *policy.Identity {
	t.Helper()
	id, err := policy.NewIdentity(policy.Settings{TrustedProxies: []netip.Prefix{netip.MustParsePrefix(proxies)}, OnUnnamed: unnamed})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// LinksNone fails if the package under test links one with any of the words in
// its path.
func LinksNone(t *testing.T, words ...string) {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.Lines(string(out)) {
		for _, bad := range words {
			if strings.Contains(dep, bad) {
				t.Errorf("the package links %s", dep)
			}
		}
	}
}
