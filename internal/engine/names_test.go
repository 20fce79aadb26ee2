package engine

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/memstore"
	"github.com/fastlimit/fastlimit/internal/exact"
	"github.com/fastlimit/fastlimit/limit"
)

// storedName is the name of a bucket in a store, learned by resetting the client.
func storedName(r *Rule, k Key) string {
	var s namedOnly
	exact.NewShared(r.buckets, r.Name(), &s, time.Second).Reset(r.client(k))
	return s.name
}

// namedOnly is a store that knows how the last bucket that it was asked about is named.
type namedOnly struct {
	noStore

	name string
}

func (s *namedOnly) Submit(op *bucket.Op) error {
	s.name = op.Key
	return bucket.ErrAway
}

func TestStoredNames(t *testing.T) {
	t.Parallel()
	names := []string{"per-ip", "api", "api:2001", "a%3Ab", "{a}:", "login page"}
	var rules []limit.RuleConfig
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

// No two clients share a bucket in a store (see package exact): one client of each of two rules.
func TestRulesShareNoBucket(t *testing.T) {
	t.Parallel()
	store := memstore.New(memstore.Config{})
	t.Cleanup(func() { _ = store.Close(context.Background()) })
	lim, err := New(Config{
		Rules: []limit.RuleConfig{strictRule("api", 1, time.Hour, 3), strictRule("api:2001", 1, time.Hour, 3)},
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
