package planetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	config "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/fastlimit/fastlimit/internal/testkit"
)

// bad is a world that is refused.
type bad struct {
	what  string
	world []*config.RateLimitConfig
	spoil func(*discovery.DiscoveryResponse) // see [plane]
	why   string                             // is in the reason
}

// good is the world that has to stay in force, and a part of most bad ones.
func good(n int) *config.RateLimitConfig { return world("shop", yearly("user", n)) }

// beside is a bad world of a good resource and another one of the domain other.
func beside(d ...*config.RateLimitDescriptor) []*config.RateLimitConfig {
	return []*config.RateLimitConfig{good(7), world("other", d...)}
}

var bads = []bad{
	{what: "no unit", world: beside(limited("k", policy(0, 1))), why: `of-other: other.k: unknown unit "UNKNOWN"`},
	{what: "a unit that Envoy lacks", world: beside(limited("k", policy(99, 1))), why: `of-other: other.k: unknown unit "99"`},
	{what: "no domain", world: []*config.RateLimitConfig{good(7), world("")}, why: "of-: domain: is missing or empty"},
	{what: "two of a domain", world: []*config.RateLimitConfig{good(7), {Name: "second", Domain: "shop"}}, why: `domain: "shop" is in another`},
	{what: "two of a descriptor", world: beside(yearly("k", 1), yearly("k", 2)), why: "of-other: other.k: a second descriptor"},
	{what: "no key", world: beside(yearly("", 1)), why: "of-other: other: a descriptor without key"},
	{
		what: "unlimited and a unit", world: beside(limited("k", &config.RateLimitPolicy{Unlimited: true, Unit: config.RateLimitUnit_DAY})),
		why: "of-other: other.k: unlimited and a unit",
	},
	{
		what: "replaces itself", why: `of-other: other.k: replaces itself, "n"`,
		world: beside(limited("k", &config.RateLimitPolicy{Unit: config.RateLimitUnit_DAY, Name: "n", Replaces: []*config.RateLimitReplace{{Name: "n"}}})),
	},
	{
		what: "garbage", world: beside(), why: "resource 1: ",
		spoil: func(r *discovery.DiscoveryResponse) { r.Resources[1].Value = []byte("\xff\xff\xff") },
	},
	{
		what: "a resource of another type", world: beside(), why: `resource 1: type "type.googleapis.com/envoy.config.cluster.v3.Cluster"`,
		spoil: func(r *discovery.DiscoveryResponse) {
			r.Resources[1].TypeUrl = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
		},
	},
}

// TestBadWorlds: a bad world is refused with the reason, and the limits in force stay with
// their counts, though parts of it are good. The next good one is taken.
func TestBadWorlds(t *testing.T) {
	t.Parallel()
	fastest := make(chan time.Duration, len(bads))
	t.Run("each", func(t *testing.T) {
		for _, b := range bads {
			t.Run(b.what, func(t *testing.T) {
				t.Parallel()
				fastest <- b.try(t)
			})
		}
	})
	close(fastest)
	least := time.Hour
	for took := range fastest {
		least = min(least, took)
	}
	testkit.Eventually(t, "a first refusal without a pause, which would be a second", func() bool {
		if least > time.Second/2 { // a slow machine tries again, one at a time
			least = min(least, bads[0].try(t))
		}
		return least <= time.Second/2
	})
	t.Logf("the first refusal came after %v", least)
}

// try returns how long the first refusal took.
func (b *bad) try(t *testing.T) time.Duration {
	p := newPlane(t, "127.0.0.1:0")
	r := startUp(t, p.addr)
	c := r.dial()
	p.put(good(100))
	c.left("user", "a")
	p.spoil = func(resp *discovery.DiscoveryResponse) {
		if b.spoil != nil && resp.GetVersionInfo() == "2" {
			b.spoil(resp)
		}
	}
	start := time.Now()
	p.set(b.world...)
	got := p.next()
	took := time.Since(start)
	if why := got.GetErrorDetail().GetMessage(); !strings.Contains(why, b.why) || got.GetVersionInfo() != "1" || got.GetResponseNonce() == "" {
		t.Errorf("answered with %v, want version 1 and the reason %s", got, b.why)
	}
	r.waitLog("the limits in force stay")
	if log := strings.ReplaceAll(r.log.String(), `\"`, `"`); !strings.Contains(log, b.why) {
		t.Errorf("the reason is not logged")
	}
	if left := c.left("user", "a"); left != 98 {
		t.Errorf("%d left after the bad world, want 98", left)
	}
	p.set(good(200))
	for got = p.next(); got.GetErrorDetail() != nil; got = p.next() {
		continue // to the bad world, once more
	}
	if got.GetVersionInfo() != "3" {
		t.Errorf("the good world is answered with %v", got)
	}
	if left := c.left("user", "a"); left != 197 {
		t.Errorf("%d left of the good world, want 197", left)
	}
	return took
}

// TestRefusalsArePaced: go-control-plane answers a refusal at once with the same world, and
// then there is a second between refusals. The bound is one that no stall breaks. Files that
// lie where Envoy Gateway's variables point do not count meanwhile.
func TestRefusalsArePaced(t *testing.T) {
	t.Parallel()
	p, root := newPlane(t, "127.0.0.1:0"), t.TempDir()
	file := filepath.Join(root, "ratelimit", "config", "shop.yaml")
	must(t, os.MkdirAll(filepath.Dir(file), 0o700))
	must(t, os.WriteFile(file, []byte("domain: shop"), 0o600))
	r := startUp(t, p.addr, "RUNTIME_ROOT="+root)
	p.put(good(100))
	start := time.Now()
	for i := 1; i <= 5; i++ {
		switch i {
		case 1:
			p.set(beside(yearly("", 1))...)
		case 3: // another mistake does not hasten it
			p.set(beside(yearly("k", 1), yearly("k", 2))...)
		}
		p.refusal()
		if elapsed := time.Since(start).Seconds(); float64(i) > elapsed+2 {
			t.Fatalf("%d refusals in %.2f s", i, elapsed)
		}
	}
	t.Logf("5 refusals in %v", time.Since(start))
	if n := r.metric("ratelimit_service_config_load_error"); n != 2 {
		t.Errorf("%v refusals are counted: want one for each reason", n)
	}
	if n := r.metric("ratelimit_service_config_load_success"); n != 1 {
		t.Errorf("%v configurations were put in force, want the first world", n)
	}
	if left := r.dial().left("user", "a"); left != 99 {
		t.Errorf("%d left, want 99", left)
	}
}
