package fastlimit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fastlimit/fastlimit/bucket/memstore"
)

// storedName is the name of a bucket in a store.
func storedName(r *Rule, k Key) string {
	return string(r.appendStored(nil, k))
}

func TestStoredNames(t *testing.T) {
	t.Parallel()
	names := []string{"per-ip", "api", "api:2001", "a%3Ab", "{a}:", "login page"}
	var rules []RuleConfig
	for _, name := range names {
		rules = append(rules, rule(name, 1, time.Second, 1))
	}
	lim := mustNew(t, rules...)
	addr := netip.MustParseAddr
	for _, tt := range []struct {
		rule int
		key  func(r *Rule) Key
		want string
	}{
		{0, func(r *Rule) Key { return r.AddrKey(addr("192.0.2.7")) }, "per-ip:192.0.2.7"},
		{1, func(r *Rule) Key { return r.AddrKey(addr("2001:db8:1:2::5")) }, "api:2001:db8:1:2::/64"},
		{2, func(r *Rule) Key { return r.AddrKey(addr("db8:1:2::9")) }, "api%3A2001:db8:1:2::/64"},
		{3, func(r *Rule) Key { return r.BytesKey() }, `a%253Ab:""`},
		{4, func(r *Rule) Key { return r.BytesKey([]byte("{x}"), []byte(`\x7b"`)) }, `%7Ba%7D%3A:"\x7bx\x7d","\\x7b\""`},
		{5, func(r *Rule) Key { return r.BytesKey([]byte("ä")) }, `login page:"\u00e4"`},
		{0, func(r *Rule) Key { return r.BytesKey([]byte(strings.Repeat("{", 120))) }, "per-ip:#2ad071"},
	} {
		r := lim.rules[tt.rule]
		if got := storedName(r, tt.key(r)); !strings.HasPrefix(got, tt.want) || len(got) != len(tt.want) && !strings.Contains(tt.want, "#") {
			t.Errorf("rule %q: stored as %s, want %s", r.Name(), got, tt.want)
		}
	}
}

// TestStoredNamesDiffer: no two clients of any rules share a bucket in a store,
// whatever the rules are called and the clients write.
func TestStoredNamesDiffer(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 8))
	alphabet := []string{":", "%", "3", "A", "{", "}", "7", "b", `"`, `\`, "x", ",", "#", "1::", "/64", ".", "\x00", "\xff", "ä", "2001:db8::/64", `:"`, "%3A"}
	text := func(most int) string {
		var b strings.Builder
		for range rng.IntN(most) {
			b.WriteString(alphabet[rng.IntN(len(alphabet))])
		}
		return b.String()
	}
	config, taken := Config{}, map[string]bool{"": true}
	for len(config.Rules) < 100 {
		if name := text(5); !taken[name] && utf8.ValidString(name) {
			taken[name] = true
			config.Rules = append(config.Rules, rule(name, 1, time.Second, 1))
		}
	}
	config.Memory = 1 << 20 * int64(len(config.Rules))
	lim, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	clients := map[string]string{}
	for range 200_000 {
		r := lim.rules[rng.IntN(len(lim.rules))]
		var k Key
		var client string
		if rng.IntN(4) == 0 {
			a := netip.AddrFrom16([16]byte{0x20, 0x01, byte(rng.IntN(3)), byte(rng.IntN(3)), 15: 1})
			k, client = r.AddrKey(a), fmt.Sprintf("%q %v", r.Name(), a)
		} else {
			parts := make([][]byte, 1+rng.IntN(3)) // none is the same client as one that is empty
			for i := range parts {
				parts[i] = []byte(text(4 + 60*rng.IntN(2)))
			}
			k, client = r.BytesKey(parts...), fmt.Sprintf("%q %q", r.Name(), parts)
		}
		name := storedName(r, k)
		if other, ok := clients[name]; ok && other != client {
			t.Fatalf("%s and %s are both stored as %s", client, other, name)
		}
		if strings.ContainsAny(name, "{}") {
			t.Fatalf("%s is stored as %s: Redis Cluster would look between the braces", client, name)
		}
		clients[name] = client
	}
}

// The same through a store: one client of each of two rules.
func TestRulesShareNoBucket(t *testing.T) {
	t.Parallel()
	store := memstore.New(memstore.Config{})
	t.Cleanup(func() { _ = store.Close(context.Background()) })
	lim, err := New(Config{
		Rules: []RuleConfig{strictRule("api", 1, time.Hour, 3), strictRule("api:2001", 1, time.Hour, 3)},
		Store: store, StoreTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	a, b := lim.rules[0], lim.rules[1]
	if d := a.Take(t.Context(), a.AddrKey(netip.MustParseAddr("2001:db8:1:2::5")), 3); !d.Allowed {
		t.Fatalf("the first: %+v", d)
	}
	if d := b.Take(t.Context(), b.AddrKey(netip.MustParseAddr("db8:1:2::9")), 3); !d.Allowed {
		t.Errorf("P1: a client of the other rule that sent nothing: %+v", d)
	}
}
