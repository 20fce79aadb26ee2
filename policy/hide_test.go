package policy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
	"pgregory.net/rapid"
)

// TestHiddenKeys: people see hashes of headers and cookies, the same wherever they see them and
// however long the value is, and what decides is the value.
func TestHiddenKeys(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("secret", 20)
	spec := RuleSpec{Limit: ruleOf("r", 1), Key: key(byCookie, byMethod, byHeader)}
	spec.Limit.Strict, spec.Limit.Ban = true, fastlimit.BanPolicy{After: 1, For: time.Hour}
	spec.Overrides = []Override{{Key: []string{"of the file", "GET", "k"}, Burst: 3}}
	e := mustEngine(t, Settings{Rules: []RuleSpec{spec}, ShowKeys: []string{"sid", "X-Other"}})
	rule := e.rules[0].limit
	r := sampleRequest("192.0.2.7")
	var names []string
	for _, header := range []string{"k1", long, "#0123456789abcdef"} {
		r.Fields = fieldMap{"X-Api-Key": header, "cookie sid": "s1"}
		hash := e.HashKey(header)
		if len(hash) != 17 || hash[0] != '#' || strings.Trim(hash[1:], "0123456789abcdef") != "" {
			t.Fatalf("the hash of %s is %s", header, hash)
		}
		want := []string{"s1", "GET", hash}
		if got := e.KeyText(rule, r); got.Text != strings.Join(want, " ") || !slices.Equal(got.Parts, want) {
			t.Errorf("a request reads %+v, want %q", got, want)
		}
		for range 2 {
			e.Decide(t.Context(), r, new(Scratch))
		}
		for b := range rule.Bans() {
			names = append(names, b.Name)
			if got := e.TalkerText(rule, []byte(b.Name)); got.Text != strings.Join(want, " ") || !slices.Equal(got.Parts, want) {
				t.Errorf("a ban reads %+v, want %q", got, want)
			}
			limit, k, _, ok := e.TalkerLimit(rule, []byte(b.Name))
			if whole := header != long; ok != whole || ok && (limit != rule || k.Digest() != b.Digest) {
				t.Errorf("%s: of a name %v %v", header, limit, ok)
			}
			(*engine.Rule)(rule).UnbanDigest(b.Digest)
		}
		if k, err := e.KeyFromText(rule, []string{"s1", "GET", header}); err != nil || rule.Peek(k, 1).Allowed {
			t.Errorf("%s: whoever has the value does not name the client: %v", header, err)
		}
		revealed, err := e.RevealKey(rule, want, slices.Values(names))
		if header == long {
			if err == nil || !strings.Contains(err.Error(), "write the value itself") {
				t.Errorf("a value of which only the beginning is known is %q: %v", revealed, err)
			}
		} else if err != nil || !slices.Equal(revealed, []string{"s1", "GET", header}) {
			t.Errorf("%s is of %q: %v", hash, revealed, err)
		}
	}
	for _, parts := range [][]string{{"s1", "GET", "k1"}, {"s1", "GET", "#0123"}, {"s1", "GET", "#0123456789ABCDEF"}, {"#0123456789abcdef", "GET", "x"}, {"#0123456789abcdef"}, nil} {
		if same, err := e.RevealKey(rule, parts, slices.Values(names)); err != nil || !slices.Equal(same, parts) {
			t.Errorf("%q has no hash, and is %q: %v", parts, same, err)
		}
	}
	if shown := e.HideKey(rule, []string{"s1", "GET", "k1"}); !slices.Equal(shown, []string{"s1", "GET", e.HashKey("k1")}) {
		t.Errorf("a key is shown as %q", shown)
	}
	if shown := e.HideKey(nil, []string{"192.0.2.0/24", "2001:db8::1", "k1"}); !slices.Equal(shown, []string{"192.0.2.0/24", "2001:db8::1", e.HashKey("k1")}) {
		t.Errorf("a key of no rule is shown as %q", shown)
	}
	if got := e.TalkerText(rule, []byte("p\x02s1\x03GET\x02k1\x01x")); got.Text[0] != '?' || strings.Contains(got.Text, "k1") {
		t.Errorf("a name of another rule's reads %+v", got)
	}
	if got := e.TalkerText(rule, []byte("c\x02s1\x03GET\x82k1")); got.Text != "s1 GET #…" || got.Parts != nil {
		t.Errorf("a name with too little of a secret reads %+v", got)
	}
	same, other := mustEngine(t, Settings{Rules: []RuleSpec{spec}}), e
	if same.HashKey("k1") == other.HashKey("k1") {
		t.Error("two secrets make one hash")
	}
}

// TestNoSecretInAnyText: whatever keys are made of and however long their parts are, no text of them
// has more than four bytes in a row of a hidden value, and each is one line.
func TestNoSecretInAnyText(t *testing.T) {
	t.Parallel()
	kinds := []KeyPart{byIP, byMethod, byHost, byPath, byAll, byHeader, byCookie}
	rapid.Check(t, func(rt *rapid.T) {
		spec := RuleSpec{Limit: ruleOf("r", 1), Key: append(rapid.SliceOfN(rapid.SampledFrom(kinds), 0, 3).Draw(rt, "key"), byHeader, byCookie)}
		spec.Limit.Strict, spec.Limit.Ban = true, fastlimit.BanPolicy{After: 1, For: time.Hour}
		e := mustEngine(t, Settings{Rules: []RuleSpec{spec}})
		other := mustEngine(t, Settings{Rules: []RuleSpec{{Limit: ruleOf("other", 1), Key: key(byIP)}}})
		secret := func(name string) string {
			return strings.Repeat(rapid.StringMatching(`[A-Z#"\\]{5,9}`).Draw(rt, name), rapid.IntRange(1, 20).Draw(rt, name+" times"))
		}
		header, cookie := secret("header"), secret("cookie")
		r := sampleRequest("192.0.2.7")
		r.Path = []byte("/" + strings.Repeat("p", rapid.IntRange(0, 90).Draw(rt, "path")))
		r.Fields = fieldMap{"X-Api-Key": header, "cookie sid": cookie}
		rule := e.rules[0].limit
		texts := []string{e.KeyText(rule, r).Text}
		for range 2 {
			e.Decide(t.Context(), r, new(Scratch))
		}
		for b := range rule.Bans() {
			texts = append(texts, e.TalkerText(rule, []byte(b.Name)).Text, other.TalkerText(rule, []byte(b.Name)).Text)
		}
		if len(texts) != 3 {
			rt.Fatalf("%d texts", len(texts))
		}
		for _, text := range texts {
			for _, s := range []string{header, cookie} {
				for i := range len(s) - 4 {
					if strings.Contains(text, s[i:i+5]) {
						rt.Fatalf("key %v of %q and %q: %s", spec.Key, header, cookie, text)
					}
				}
			}
			if strings.ContainsAny(text, "\n\r\t") || text == "" {
				rt.Fatalf("%q is no line", text)
			}
		}
	})
}
