package engine

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/limit"
)

// keyKinds makes a key of each kind.
func keyKinds(r *Rule) map[string]Key {
	return map[string]Key{
		"IPv4":     r.AddrKey(netip.MustParseAddr("192.0.2.7")),
		"IPv6":     r.AddrKey(netip.MustParseAddr("2001:db8::7")),
		"no parts": r.BytesKey(),
		"one part": r.BytesKey([]byte("x")),
		"parts":    r.BytesKey([]byte("x"), nil, []byte("y")),
	}
}

// TestForeignKey: a rule knows its own keys, of whatever kind, from those of
// any other rule, whichever way they are handed to it.
func TestForeignKey(t *testing.T) {
	t.Parallel()
	config := Config{Secret: [32]byte{1}}
	for _, name := range []string{"a", "b"} {
		long := rule(name+" long", 1, time.Second, 1e6)
		long.IPv6Prefix = 128
		config.Rules = append(config.Rules, rule(name, 1, time.Second, 1e6), long)
	}
	var rules []*Rule
	for range 2 { // two limiters of one configuration
		lim, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, lim.rules...)
	}
	ctx := t.Context()
	for name, use := range map[string]func(r *Rule, k Key){
		"Allow":  func(r *Rule, k Key) { r.Allow(k) },
		"Take":   func(r *Rule, k Key) { r.Take(ctx, k, 1) },
		"Peek":   func(r *Rule, k Key) { r.Peek(k, 1) },
		"Refund": func(r *Rule, k Key) { r.Refund(k, 1) },
		"Reset":  func(r *Rule, k Key) { r.Reset(k) },
		"TakeAll": func(r *Rule, k Key) {
			r.limiter.TakeAll(ctx, []Charge{{r, k, 1}})
		},
		"TakeAllAt": func(r *Rule, k Key) {
			r.limiter.TakeAllAt(ctx, []Charge{charge(r, 1), {r, k, 1}}, time.Now())
		},
	} {
		for _, r := range rules {
			for _, maker := range rules {
				for kind, k := range keyKinds(maker) {
					got, own := testkit.Recovered(func() { use(r, k) }), r == maker
					if strings.HasSuffix(r.Name(), "long") && kind == "IPv6" {
						// There is no room for a tag: what tells is the digest,
						// which is that of the twin's, and so is the client.
						own = r.Name() == maker.Name()
					}
					if want := "a Key that another rule has made"; !own && !strings.Contains(got, want) || own && got != "" {
						t.Errorf("%s: %s key of rule %d (%q) given to rule %d (%q): panic %q",
							name, kind, maker.index, maker.Name(), r.index, r.Name(), got)
					}
				}
			}
			if got := testkit.Recovered(func() { use(r, Key{}) }); !strings.HasPrefix(got, "BUG: fastlimit: rule") || !strings.Contains(got, "the zero Key") {
				t.Errorf("%s: the zero Key: panic %q", name, got)
			}
			if got := testkit.Recovered(func() { use(new(Rule), Key{}) }); name[:len("Take")] != "Take" && !strings.Contains(got, "the Rule was not made by New") {
				t.Errorf("%s: a zero Rule: panic %q", name, got)
			}
		}
	}
}

func TestMisuse(t *testing.T) {
	t.Parallel()
	lim, other := mustNew(t, rule("a", 1, time.Second, 1)), mustNew(t, rule("z", 1, time.Second, 1))
	r, ctx := lim.rules[0], t.Context()
	good := charge(r, 1)
	var zero Rule
	for want, f := range map[string]func(){
		"charge 0: its Rule is nil":                              func() { lim.TakeAll(ctx, []Charge{{}}) },
		"charge 1: its Rule is nil":                              func() { takeAllAt(lim, []Charge{good, {}}, 0) },
		"charge 1: its Rule was not made by New":                 func() { lim.TakeAll(ctx, []Charge{good, {Rule: &zero}}) },
		`charge 0: rule "z" belongs to another Limiter`:          func() { lim.TakeAll(ctx, []Charge{charge(other.rules[0], 1)}) },
		`charge 1: rule "z" belongs to another Limiter`:          func() { lim.TakeAllAt(ctx, []Charge{good, charge(other.rules[0], 1)}, time.Now()) },
		"more charges than MaxRules":                             func() { lim.TakeAll(ctx, make([]Charge, limit.MaxRules+1)) },
		"the Rule was not made by New: get it from Limiter.Rule": func() { zero.Take(ctx, zero.AddrKey(netip.IPv6Loopback()), 1) },
		"the Rule was not made by New":                           func() { zero.Stats() },
		"the Rule was not":                                       func() { zero.ChargePeer(1, 1) },
		"AddrKey is given the zero netip.Addr":                   func() { r.AddrKey(netip.Addr{}) },
		"the Limiter was not made by New":                        func() { new(Limiter).Advance() },
		"the Limiter was not made":                               func() { new(Limiter).TakeAll(ctx, nil) },
	} {
		if got := testkit.Recovered(f); !strings.HasPrefix(got, "BUG: fastlimit: ") || !strings.Contains(got, want) {
			t.Errorf("panic %q, want one that says %q", got, want)
		}
	}
}

// TestUnspecifiedIsAClient: only a missing address is a mistake.
func TestUnspecifiedIsAClient(t *testing.T) {
	t.Parallel()
	r := mustNew(t, strictRule("a", 1, time.Hour, 1)).rules[0]
	for _, addr := range []string{"::", "0.0.0.0", "::ffff:0.0.0.0", "::1"} {
		want := addr == "::" || addr == "0.0.0.0" // the others are theirs
		if got := r.Allow(r.AddrKey(netip.MustParseAddr(addr))); got != want {
			t.Errorf("%s: allowed %v, want %v", addr, got, want)
		}
	}
}

// FuzzKey: whatever a client can write into a key, or be as an address, makes a
// decision and a name, and no panic.
func FuzzKey(f *testing.F) {
	f.Add([]byte("a"), []byte("b"), uint64(1))
	f.Add([]byte(nil), []byte("{a}:%\x00\xff\"…"), uint64(1<<63))
	f.Add([]byte("\xc0\x00\x02\x01"), []byte("0123456789abcdef"), uint64(0))
	plain, long := rule("plain", 10, time.Second, 20), rule("a{b}:c%", 65533, time.Second, 3)
	long.IPv4Prefix, long.IPv6Prefix = 24, 100
	lim, err := New(Config{Rules: []limit.RuleConfig{plain, long}, TopTalkers: 4, Memory: 2 << 20})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, a, b []byte, n uint64) {
		for _, r := range lim.rules {
			keys := []Key{r.BytesKey(), r.BytesKey(a), r.BytesKey(a, b), r.BytesKey(b, a, nil)}
			for _, raw := range [][]byte{a, b} {
				if addr, ok := netip.AddrFromSlice(raw); ok {
					keys = append(keys, r.AddrKey(addr), r.AddrKey(addr.WithZone(string(a))))
				}
			}
			for _, k := range keys {
				r.Take(t.Context(), k, n)
				r.Allow(k)
				r.Peek(k, n)
				lim.TakeAll(t.Context(), []Charge{{r, k, n}, {r, k, 1}})
				r.Refund(k, n)
				r.Reset(k)
				name := string(r.AppendKey(nil, k))
				stored := storedName(r, k)
				if name == "" || strings.ContainsAny(stored, "{}") {
					t.Errorf("%q is stored as %q", name, stored)
				}
			}
			r.nameText(a)
		}
	})
}
