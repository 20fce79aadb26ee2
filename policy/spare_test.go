package policy

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
)

// What a rule counts an address by is what two addresses have in common that share its key.
func TestClientPrefix(t *testing.T) {
	t.Parallel()
	limit := func(name string, bits4, bits6 int) fastlimit.RuleConfig {
		return fastlimit.RuleConfig{Name: name, Rate: fastlimit.Rate{N: 1, Per: time.Hour}, IPv4Prefix: bits4, IPv6Prefix: bits6}
	}
	e := mustEngine(t, Settings{Rules: []RuleSpec{
		{Limit: limit("default", 0, 0), Key: key(byIP)},
		{Limit: limit("grouped", 24, 48), Key: key(byIP)},
		{Limit: limit("long", 28, 128), Key: key(byIP)},
		{Limit: limit("header", 0, 0), Key: key(KeyPart{Kind: KeyHeader, Name: "X-Key"})},
		{Limit: limit("both", 0, 0), Key: key(byIP, byPath)},
		{Limit: limit("global", 0, 0), Key: key(KeyPart{Kind: KeyGlobal})},
	}})
	for i, want := range [][2]string{
		{"192.0.2.77/32", "2001:db8:1:2::/64"},
		{"192.0.2.0/24", "2001:db8:1::/48"},
		{"192.0.2.64/28", "2001:db8:1:2:3:4:5:6/128"},
		{},
		{},
		{},
	} {
		r := e.lim.Rules()[i]
		for k, addr := range []string{"192.0.2.77", "2001:db8:1:2:3:4:5:6"} {
			p, ok := e.ClientPrefix(r, netip.MustParseAddr(addr))
			if ok != (want[k] != "") || ok && p.String() != want[k] {
				t.Errorf("%s of %s: %v %v, want %q", r.Name(), addr, p, ok, want[k])
			}
		}
		if p, ok := e.ClientPrefix(r, netip.MustParseAddr("::ffff:192.0.2.77")); ok && p.String() != want[0] {
			t.Errorf("%s of a mapped address: %v", r.Name(), p)
		}
	}
	for addr, want := range map[string]string{"192.0.2.77": "192.0.2.77/32", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64"} {
		if p, ok := e.ClientPrefix(nil, netip.MustParseAddr(addr)); !ok || p.String() != want {
			t.Errorf("without a rule: %v %v, want %s", p, ok, want)
		}
	}
	for _, nobody := range []netip.Addr{{}, netip.IPv4Unspecified()} {
		if p, ok := e.ClientPrefix(e.lim.Rules()[0], nobody); ok {
			t.Errorf("of nobody: %v", p)
		}
	}
}

// Of a prefix that a rule counts beside its clients, a ban takes the client alone if that rule has overrides,
// and nobody whom one of them frees.
func TestClientPrefixBesideOverrides(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		overrides  []Override
		want, free string
	}{
		{nil, "192.0.2.0/24", "192.0.2.0/24"},
		{[]Override{{Key: []string{"192.0.2.9"}, Unlimited: true}}, "192.0.2.77/32", ""},
	} {
		spec := withPrefixes("a", 1, Prefixes{V4: []int{24}, Members: 3})
		spec.Overrides = tt.overrides
		e := mustEngine(t, Settings{Rules: []RuleSpec{spec}})
		counts := e.lim.Rules()[len(e.lim.Rules())-1] // the prefixes
		for addr, want := range map[string]string{"192.0.2.77": tt.want, "192.0.2.9": tt.free} {
			p, ok := e.ClientPrefix(counts, netip.MustParseAddr(addr))
			if ok != (want != "") || ok && p.String() != want {
				t.Errorf("%d overrides: %s of %s: %v %v, want %q", len(tt.overrides), counts.Name(), addr, p, ok, want)
			}
		}
	}
}

// A prefix of which some address is allowed or trusted is found to have one, whichever of the
// two is longer: an oracle asks for each address.
func TestPrefixesWithAllowedAddresses(t *testing.T) {
	t.Parallel()
	engine := mustEngine(t, everyKey())
	for seed := range uint64(500) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		prefix := func() netip.Prefix { // within a /24
			p, _ := netip.AddrFrom4([4]byte{192, 0, 2, byte(rnd.IntN(256))}).Prefix(24 + rnd.IntN(9))
			return p
		}
		var allow, deny, trusted []netip.Prefix
		for _, list := range []*[]netip.Prefix{&allow, &deny, &trusted} {
			for range rnd.IntN(4) {
				*list = append(*list, prefix())
			}
		}
		l, err := NewLists(allow, deny)
		if err != nil {
			t.Fatal(err)
		}
		var bans *Bans
		now := time.Unix(1, 0)
		for range rnd.IntN(3) {
			bans = bans.With(prefix(), now.Add(time.Duration(rnd.IntN(2))*time.Hour))
		}
		e := engine.WithLists(l).WithBans(bans)
		id, err := NewIdentity(Settings{TrustedProxies: trusted})
		if err != nil {
			t.Fatal(err)
		}
		p := prefix()
		allowed, trusts := false, false
		for a := p.Addr(); p.Contains(a); a = a.Next() {
			s := Scratch{client: a}
			allowed = allowed || l.Lookup(a) == ListAllow && (bans == nil || !e.banned(&s, now))
			trusts = trusts || id.Trusted(a)
		}
		got := e.AllowsSome(p, now)
		if allowed && !got {
			t.Fatalf("seed %d: %v has allowed addresses", seed, p)
		}
		if len(deny) == 0 && (bans == nil || p.IsSingleIP()) && got && !allowed {
			t.Fatalf("seed %d: %v has no allowed addresses", seed, p)
		}
		if got := id.TrustsSome(p); got != trusts {
			t.Fatalf("seed %d: %v has trusted addresses: %v, want %v", seed, p, got, trusts)
		}
	}
}

// Of a list and an operator's ban of the same prefix the ban decides.
func TestBannedAsLongAsAllowed(t *testing.T) {
	t.Parallel()
	l, err := NewLists(prefixes("192.0.2.0/24"), nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1, 0)
	e := mustEngine(t, everyKey()).WithLists(l)
	for ban, allows := range map[string]bool{"192.0.0.0/23": true, "192.0.2.0/23": true, "192.0.2.0/24": false, "192.0.2.9/32": true} {
		banned := e.WithBans((*Bans)(nil).With(netip.MustParsePrefix(ban), now.Add(time.Hour)))
		if got := banned.AllowsSome(netip.MustParsePrefix("192.0.2.0/24"), now); got != allows {
			t.Errorf("with %s banned: some of 192.0.2.0/24 are allowed: %t, want %t", ban, got, allows)
		}
	}
}
