package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
)

// TestTalkerText: a client reads the same wherever it is named, and what it reads is its key
// where nothing is cut. An engine before or after a reload says the same of it.
func TestTalkerText(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 60)
	for _, tc := range []struct {
		key               []KeyPart
		client, path, sid string
		text              string
		named             bool
	}{
		{key(byIP), "192.0.2.7", "/", "s1", "192.0.2.0/24", true},
		{key(byIP), "2001:db8::7", "/", "s1", "2001:db8::/64", true},
		{key(byPath, byIP, byMethod), "192.0.2.7", "/a b", "s1", `"/a b" 192.0.2.0/24 GET`, true},
		{key(byPath, byIP, byMethod), "2001:db8::7", "/ü", "s1", "/ü 2001:db8::/64 GET", true},
		{key(byPath, byIP, byMethod), "192.0.2.7", "/" + long, "s1", "/" + long[:20] + "… 192.0.2.0/24 GET", false},
		{key(byIP, byPath), "192.0.2.7", "/" + long, "s1", "192.0.2.0/24 /" + long[:24] + "…", false},
		{key(byCookie), "192.0.2.7", "/", "s\xff", `"s\xff"`, false},
		{key(byCookie), "192.0.2.7", "/", "#0123456789abcdef", "#0123456789abcdef", true},
	} {
		spec := RuleSpec{Limit: ruleOf("r", 1), Key: tc.key}
		spec.Limit.IPv4Prefix, spec.Limit.Strict = 24, true
		spec.Limit.Ban = fastlimit.BanPolicy{After: 1, For: time.Hour}
		e := mustEngine(t, Settings{Rules: []RuleSpec{spec}, ShowKeys: []string{"sid"}})
		other := mustEngine(t, Settings{Rules: []RuleSpec{{Limit: ruleOf("other", 1), Key: key(byHost)}, spec}, ShowKeys: []string{ShowAllKeys}})
		r := sampleRequest(tc.client)
		r.Path, r.Fields = []byte(tc.path), fieldMap{"cookie sid": tc.sid}
		for range 2 {
			e.Decide(t.Context(), r, new(Scratch))
		}
		rule, banned := e.rules[0].limit, 0
		for b := range rule.Bans() {
			banned++
			got := e.TalkerText(rule, []byte(b.Name))
			if got.Text != tc.text || (got.Parts != nil) != tc.named {
				t.Errorf("%v: %+v, want %s", tc.key, got, tc.text)
			}
			if got := other.TalkerText(rule, []byte(b.Name)); got.Text != tc.text {
				t.Errorf("%v: another engine says %s, want %s", tc.key, got.Text, tc.text)
			}
			if !tc.named {
				continue
			}
			if k, err := e.KeyFromText(rule, e.ReadKey(rule, []string{got.Text})); err != nil || k.Digest() != b.Digest {
				t.Errorf("%v: %s is another client: %v", tc.key, got.Text, err)
			}
		}
		if banned != 1 {
			t.Errorf("%v: %d bans", tc.key, banned)
		}
		if got := e.TalkerText(rule, []byte("no name")); got.Text != "?"+e.HashKey("no name") || got.Parts != nil {
			t.Errorf("what is no name reads %+v", got)
		}
	}
}
