package policy

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
	"pgregory.net/rapid"
)

// fieldMap is a request's fields: headers by name, cookies by "cookie " + name.
type fieldMap map[string]string

func (f fieldMap) Header(name string) [][]byte {
	v, ok := f[name]
	if !ok {
		return nil
	}
	return instances(v)
}

func (f fieldMap) Cookie(name string) [][]byte { return f.Header("cookie " + name) }

// ruleOf is a rule of 1/h, so that time plays no part in a test.
func ruleOf(name string, burst uint64) fastlimit.RuleConfig {
	return fastlimit.RuleConfig{Name: name, Rate: fastlimit.Rate{N: 1, Per: time.Hour}, Burst: burst, Strict: true}
}

func mustLimiter(t testing.TB, s Settings) *fastlimit.Limiter {
	t.Helper()
	lim, err := fastlimit.New(fastlimit.Config{Rules: s.Limits(), Memory: 8 << 20, Clock: new(fastlimit.ManualClock)})
	if err != nil {
		t.Fatal(err)
	}
	return lim
}

func mustEngine(t testing.TB, s Settings) *Engine {
	t.Helper()
	e, err := New(mustLimiter(t, s), s)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func key(parts ...KeyPart) []KeyPart { return parts }

var (
	byIP     = KeyPart{Kind: KeyIP}
	byMethod = KeyPart{Kind: KeyMethod}
	byHost   = KeyPart{Kind: KeyHost}
	byPath   = KeyPart{Kind: KeyPath}
	byAll    = KeyPart{Kind: KeyGlobal}
	byHeader = KeyPart{Kind: KeyHeader, Name: "X-Api-Key"}
	byCookie = KeyPart{Kind: KeyCookie, Name: "sid"}
)

// sampleRequest has every part that a key can have.
func sampleRequest(client string) *Request {
	return &Request{
		Client: netip.MustParseAddr(client),
		Method: []byte("GET"), Host: []byte("example.com"), Path: []byte("/login"),
		Fields: fieldMap{"X-Api-Key": "k1", "cookie sid": "s1"},
	}
}

func TestDecideSingleRule(t *testing.T) {
	t.Parallel()
	rule := RuleSpec{Limit: ruleOf("per-ip", 4), Key: key(byIP)}
	rule.Limit.Cost = 2
	var clock fastlimit.ManualClock
	lim, err := fastlimit.New(fastlimit.Config{Rules: []fastlimit.RuleConfig{rule.Limit}, Clock: &clock})
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(lim, Settings{Rules: []RuleSpec{rule}})
	if err != nil {
		t.Fatal(err)
	}
	var s Scratch
	for i, want := range []bool{true, true, false} {
		v := e.Decide(t.Context(), sampleRequest("192.0.2.1"), &s)
		if v.Decision.Allowed != want || v.Rule == nil || v.Rule.Name() != "per-ip" || v.List != ListNone {
			t.Fatalf("request %d: %+v, want allowed %v by per-ip", i, v, want)
		}
	}
	if v := e.Decide(t.Context(), sampleRequest("192.0.2.2"), &s); !v.Decision.Allowed {
		t.Errorf("another client: %+v", v)
	}
	clock.Set(2 * time.Hour)
	if v := e.Decide(t.Context(), sampleRequest("192.0.2.1"), &s); !v.Decision.Allowed {
		t.Errorf("two hours later: %+v", v)
	}
}

func TestDecideNow(t *testing.T) {
	t.Parallel()
	e := mustEngine(t, Settings{Rules: []RuleSpec{{Limit: ruleOf("per-ip", 1), Key: key(byIP)}}})
	var s Scratch
	for i, want := range []bool{true, false} {
		if v := e.Decide(t.Context(), sampleRequest("192.0.2.1"), &s); v.Decision.Allowed != want {
			t.Errorf("request %d: %+v, want allowed %v", i, v, want)
		}
	}
}

func TestDecideSeveralRules(t *testing.T) {
	t.Parallel()
	shadow := RuleSpec{Limit: ruleOf("shadow", 1), Key: key(byAll)}
	shadow.Limit.Mode = fastlimit.Shadow
	login := RuleSpec{Limit: ruleOf("login", 1), Key: key(byIP, byPath), Match: Match{Paths: []string{"/login"}}}
	e := mustEngine(t, Settings{Rules: []RuleSpec{shadow, login, {Limit: ruleOf("per-ip", 2), Key: key(byIP)}}})
	var s Scratch
	other := sampleRequest("192.0.2.1")
	other.Path = []byte("/")
	for i, step := range []struct {
		r       *Request
		by      string
		allowed bool
	}{
		{sampleRequest("192.0.2.1"), "per-ip", true},
		{sampleRequest("192.0.2.1"), "login", false}, // not charged to per-ip
		{other, "per-ip", true},
		{other, "per-ip", false},
	} {
		v := e.Decide(t.Context(), step.r, &s)
		if v.Decision.Allowed != step.allowed || v.Rule.Name() != step.by {
			t.Errorf("step %d: %+v by %s, want allowed %v by %s", i, v, v.Rule.Name(), step.allowed, step.by)
		}
	}
	stats := e.rules[0].limit.Stats()
	if got := stats.Denied[fastlimit.StageTable] + stats.Denied[fastlimit.StageExact]; got == 0 {
		t.Error("the shadow rule counted no denial")
	}
}

func TestDecideOnlyShadow(t *testing.T) {
	t.Parallel()
	rule := RuleSpec{Limit: ruleOf("shadow", 1), Key: key(byIP)}
	rule.Limit.Mode = fastlimit.Shadow
	e := mustEngine(t, Settings{Rules: []RuleSpec{rule}})
	var s Scratch
	for i := range 3 {
		v := e.Decide(t.Context(), sampleRequest("192.0.2.1"), &s)
		if !v.Decision.Allowed || v.Rule != nil {
			t.Errorf("request %d: %+v, want allowed by no rule", i, v)
		}
		if got := s.Applied(); len(got) != 1 || got[0].Rule.Name() != "shadow" {
			t.Errorf("request %d: applied %+v, want shadow", i, got)
		}
	}
}

// A rule whose key is incomplete must not apply: else one client without a
// cookie could have all others without one denied (P1).
func TestDecideIncompleteKey(t *testing.T) {
	t.Parallel()
	whole := sampleRequest("192.0.2.1")
	without := func(change func(*Request)) *Request {
		r := *whole
		change(&r)
		return &r
	}
	noFields := without(func(r *Request) { r.Fields = nil })
	emptyFields := without(func(r *Request) { r.Fields = fieldMap{"X-Api-Key": "", "cookie sid": ""} })
	for _, tc := range []struct {
		part KeyPart
		r    *Request
	}{
		{byHeader, noFields},
		{byCookie, noFields},
		{byHeader, emptyFields},
		{byCookie, emptyFields},
		{byHeader, without(func(r *Request) { r.Fields = fieldMap{"cookie X-Api-Key": "k"} })},
		{byCookie, without(func(r *Request) { r.Fields = fieldMap{"sid": "s"} })},
		{byIP, without(func(r *Request) { r.Client = netip.Addr{} })},
		{byIP, without(func(r *Request) { r.Client = netip.IPv4Unspecified() })},
		{byIP, without(func(r *Request) { r.Client = netip.IPv6Unspecified() })},
		{byHost, without(func(r *Request) { r.Host = nil })},
		{byPath, without(func(r *Request) { r.Path = nil })},
		{byMethod, without(func(r *Request) { r.Method = nil })},
	} {
		for _, parts := range [][]KeyPart{key(tc.part), key(byAll, tc.part), key(tc.part, byAll)} {
			e := mustEngine(t, Settings{Rules: []RuleSpec{{Limit: ruleOf("r", 1), Key: parts}}})
			var s Scratch
			for range 3 {
				v := e.Decide(t.Context(), tc.r, &s)
				if !v.Decision.Allowed || v.Rule != nil || len(s.Applied()) != 0 {
					t.Errorf("key %v: %+v, want no rule to apply", parts, v)
				}
			}
			if v := e.Decide(t.Context(), whole, &s); v.Rule == nil || !v.Decision.Allowed {
				t.Errorf("key %v: %+v of the whole request, want the rule to apply, uncharged", parts, v)
			}
		}
	}
}

// TestApplied checks against an oracle which rules apply, one Scratch for
// engines of every shape.
func TestApplied(t *testing.T) {
	t.Parallel()
	var s Scratch
	parts := []KeyPart{byIP, byMethod, byHost, byPath, byAll, byHeader, byCookie}
	subset := func(from ...string) *rapid.Generator[[]string] { return rapid.SliceOfN(rapid.SampledFrom(from), 0, 2) }
	rapid.Check(t, func(t *rapid.T) {
		var settings Settings
		config := fastlimit.Config{Memory: 1 << 20}
		for i := range rapid.IntRange(1, 4).Draw(t, "rules") {
			spec := RuleSpec{Limit: ruleOf(fmt.Sprint("r", i), 1)}
			spec.Key = rapid.SliceOfN(rapid.SampledFrom(parts), 1, 3).Draw(t, "key")
			spec.Match.Hosts = subset("*.com", "a.*", "a.com", "*").Draw(t, "hosts")
			spec.Match.Paths = subset("/*", "/x/*", "*y", "/x").Draw(t, "paths")
			spec.Match.Methods = subset("GET", "POST").Draw(t, "methods")
			settings.Rules = append(settings.Rules, spec)
			config.Rules = append(config.Rules, spec.Limit)
		}
		fields := fieldMap{}
		for _, name := range []string{"X-Api-Key", "cookie sid"} {
			if v := rapid.SampledFrom([]string{"absent", "", "v"}).Draw(t, name); v != "absent" {
				fields[name] = v
			}
		}
		r := &Request{
			Client: netip.MustParseAddr(rapid.SampledFrom([]string{"192.0.2.1", "2001:db8::1", "::"}).Draw(t, "client")),
			Method: []byte(rapid.SampledFrom([]string{"GET", "POST", "PUT"}).Draw(t, "method")),
			Host:   []byte(rapid.SampledFrom([]string{"a.com", "b.com", "a.org", ""}).Draw(t, "host")),
			Path:   []byte(rapid.SampledFrom([]string{"/", "/x", "/x/y"}).Draw(t, "path")),
			Fields: fields,
		}
		lim, err := fastlimit.New(config)
		if err != nil {
			t.Fatal(err)
		}
		e, err := New(lim, settings)
		if err != nil {
			t.Fatal(err)
		}
		e.Decide(t.Context(), r, &s)
		var got, want []int
		for _, a := range s.Applied() {
			got = append(got, (*engine.Rule)(a.Rule).Index())
			if a.Rule != lim.Rules()[(*engine.Rule)(a.Rule).Index()] {
				t.Fatalf("rule %d is %s", (*engine.Rule)(a.Rule).Index(), a.Rule.Name())
			}
		}
		for i, a := range e.Applying(r, &s) { // the same, without charging any
			if len(s.Applied()) != len(got) || (*engine.Rule)(a.Rule).Index() != got[i] {
				t.Fatalf("applying %d is rule %d, want %v", i, (*engine.Rule)(a.Rule).Index(), got)
			}
		}
		for i, spec := range settings.Rules {
			if slowApplies(&spec, r) {
				want = append(want, i)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("applied %v, want %v", got, want)
		}
	})
}

func slowApplies(spec *RuleSpec, r *Request) bool {
	anyGlob := func(globs []string, text []byte) bool {
		hit := len(globs) == 0
		for _, g := range globs {
			hit = hit || globRegexp(g).Match(text)
		}
		return hit
	}
	fields := r.Fields.(fieldMap)
	for _, p := range spec.Key {
		have := map[KeyKind]bool{
			KeyIP: !r.Client.IsUnspecified(), KeyMethod: true, KeyPath: true, KeyGlobal: true, KeyHost: len(r.Host) > 0,
			KeyHeader: fields["X-Api-Key"] != "", KeyCookie: fields["cookie sid"] != "",
		}
		if !have[p.Kind] {
			return false
		}
	}
	return anyGlob(spec.Match.Methods, r.Method) && anyGlob(spec.Match.Hosts, r.Host) && anyGlob(spec.Match.Paths, r.Path)
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	good := Settings{Rules: []RuleSpec{{Limit: ruleOf("a", 1), Key: key(byIP)}, {Limit: ruleOf("b", 1), Key: key(byIP)}}}
	lim := mustLimiter(t, good)
	bad := Settings{
		Rules: []RuleSpec{
			{Limit: ruleOf("a", 1), Match: Match{Hosts: []string{"a b"}, Paths: []string{"x"}, Methods: []string{"get"}}},
			{Limit: ruleOf("c", 1), Key: key(KeyPart{Kind: KeyHeader})},
		},
		Allow: []netip.Prefix{{}},
		Deny:  prefixes("::ffff:10.0.0.0/8"),
	}
	_, err := New(lim, bad)
	for _, want := range []string{
		`rule "a": Key: no key`, `host pattern "a b"`, `path pattern "x"`, `method "get"`,
		`rule "c": the limiter has "b"`, `header:X-Api-Key`, "Allow: invalid prefix", "Deny: prefix ::ffff:10.0.0.0/8",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v: does not say %s", err, want)
		}
	}
	if _, err := New(lim, Settings{Rules: good.Rules[:1]}); err == nil {
		t.Error("one rule for a limiter with two was accepted")
	}
}

// Under -race: an engine is shared, a scratch is not.
func TestDecideConcurrently(t *testing.T) {
	t.Parallel()
	e := mustEngine(t, Settings{
		Rules: []RuleSpec{{Limit: ruleOf("a", 50), Key: key(byIP)}, {Limit: ruleOf("b", 1000), Key: key(byAll, byHeader, byIP)}},
		Deny:  prefixes("10.0.0.0/8"),
	})
	var wg sync.WaitGroup
	var mu sync.Mutex
	allowed := 0
	for range 8 {
		wg.Go(func() {
			var s Scratch
			r, n := sampleRequest("192.0.2.1"), 0
			for range 100 {
				if e.Decide(t.Context(), r, &s).Decision.Allowed {
					n++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			allowed += n
		})
	}
	wg.Wait()
	if allowed != 50 {
		t.Errorf("%d requests allowed, want 50", allowed)
	}
}
