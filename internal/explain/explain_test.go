package explain

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/toptalkers"
)

func rate(n uint64) fastlimit.Rate { return fastlimit.Rate{N: n, Per: time.Hour} }

func settings() policy.Settings {
	byIP := []policy.KeyPart{{Kind: policy.KeyIP}}
	strict := func(name string, burst uint64) fastlimit.RuleConfig {
		return fastlimit.RuleConfig{Name: name, Rate: rate(10), Burst: burst, Strict: true}
	}
	waits := fastlimit.RuleConfig{Name: "waits", Rate: fastlimit.Rate{N: 1, Per: time.Second}, Burst: 1, Strict: true, MaxWait: 10 * time.Second}
	shadow := strict("shadow", 1)
	shadow.Mode = fastlimit.Shadow
	bans := strict("bans", 2)
	bans.Ban = fastlimit.BanPolicy{After: 1, Within: time.Minute, For: time.Minute}
	return policy.Settings{
		Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Deny:  []netip.Prefix{netip.MustParsePrefix("192.0.2.128/25")},
		Rules: []policy.RuleSpec{
			{Limit: strict("per-ip", 4), Key: byIP, Overrides: []policy.Override{{Key: []string{"192.0.2.1"}, Unlimited: true}, {Key: []string{"192.0.2.2"}, Rate: rate(2)}}},
			{Limit: waits, Key: byIP, Match: policy.Match{Paths: []string{"/slow"}}},
			{Limit: shadow, Key: byIP, Match: policy.Match{Paths: []string{"/shadow"}}},
			{Limit: strict("changed", 2), Key: byIP, Match: policy.Match{Paths: []string{"/changed"}}},
			{Limit: bans, Key: byIP, Match: policy.Match{Paths: []string{"/bans"}}},
			{Limit: strict("key", 2), Key: []policy.KeyPart{{Kind: policy.KeyHeader, Name: "X-Api-Key"}, {Kind: policy.KeyPath}}},
		},
	}
}

func newNode(t *testing.T) *Node {
	t.Helper()
	s := settings()
	lim, err := fastlimit.New(fastlimit.Config{Rules: s.Limits(), Memory: 8 << 20, TopTalkers: 64})
	if err != nil {
		t.Fatal(err)
	}
	e, err := policy.New(lim, s)
	if err != nil {
		t.Fatal(err)
	}
	ranking := toptalkers.New("edge-1", lim.Rules())
	ranking.Tick(lim.Now())
	b := (*policy.Bans)(nil).With(netip.MustParsePrefix("203.0.113.0/24"), time.Now().Add(time.Hour))
	return &Node{
		Engine: e.WithBans(b), Limiter: lim, Values: true,
		Talkers: func() []toptalkers.Talker { return ranking.Top(100, lim.Now()) },
		LiveFor: func(rule string) time.Duration { return map[string]time.Duration{"changed": 29 * time.Minute}[rule] },
	}
}

// request makes so many requests of a client.
func (n *Node) request(t *testing.T, client, path string, times int) {
	t.Helper()
	var s policy.Scratch
	for range times {
		n.Engine.Decide(t.Context(), &policy.Request{Client: netip.MustParseAddr(client), Path: []byte(path)}, &s)
	}
}

// TestRule has a case of each kind: after so many requests for a path, what is said of a rule.
func TestRule(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule, client, path string
		requests           int
		stage, text        string
		allowed            bool
	}{
		{"per-ip", "192.0.2.7", "/", 0, "exact", "192.0.2.7 has used 0 of the burst of rule per-ip (10/h, burst 4): its next request is admitted.", true},
		{"per-ip", "192.0.2.7", "/", 3, "exact", "192.0.2.7 has used 3 of the burst of rule per-ip (10/h, burst 4): its next request is admitted.", true},
		{"per-ip", "192.0.2.7", "/", 9, "table", "192.0.2.7 is over the limit of rule per-ip (10/h, burst 4): its next request is denied, and one fits in 6m0s.", false},
		{"per-ip", "192.0.2.1", "/", 9, "list", "Rule per-ip does not limit 192.0.2.1: an override exempts it.", true},
		{"per-ip", "192.0.2.2", "/", 9, "table", "192.0.2.2 is over the limit of its override of rule per-ip (2/h, burst 2): its next request is denied, and one fits in 30m0s.", false},
		{"per-ip", "10.1.2.3", "/", 9, "list", "10.1.2.3 is on the allow list: no rule limits it.", true},
		{"shadow", "192.0.2.200", "/shadow", 9, "list", "192.0.2.200 is on the deny list: all its requests are refused.", false},
		{"per-ip", "203.0.113.9", "/", 9, "ban", "203.0.113.9 is banned by an operator for another 1h0m0s.", false},
		{"shadow", "203.0.113.9", "/shadow", 9, "ban", "203.0.113.9 is banned by an operator for another 1h0m0s.", false},
		{"waits", "192.0.2.7", "/slow", 1, "table", "192.0.2.7 is at the limit of rule waits (1/s, burst 1): its next request waits 1s.", true},
		{"shadow", "192.0.2.7", "/shadow", 3, "table", "192.0.2.7 is over the limit of rule shadow (10/h, burst 1): its next request would be denied, and one fits in 6m0s. The rule is in shadow mode and denies nobody.", true},
		{"changed", "192.0.2.7", "/changed", 1, "exact", "192.0.2.7 has used 1 of the burst of rule changed (10/h, burst 2): its next request is admitted. An operator has changed the rule for another 29m0s.", true},
		{"bans", "192.0.2.7", "/bans", 4, "ban", "192.0.2.7 is banned by rule bans for another 1m0s, since it kept exceeding its limit.", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			n.request(t, c.client, c.path, c.requests)
			a, err := n.Rule(c.rule, []string{c.client}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if a.Text != c.text || a.Stage != c.stage || a.Allowed != c.allowed || (a.RetryAfter > 0) == c.allowed && c.stage != "list" {
				t.Errorf("rule %s after %d requests: %+v, want %q", c.rule, c.requests, *a, c.text)
			}
		})
	}
}

// TestKey answers for all rules that count by address, and says which denies.
func TestKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		d, err := n.Key([]string{"192.0.2.7"}, time.Now())
		if err != nil || len(d.Rules) != 5 || !d.Allowed || d.Text != "None of 5 rules denies the next request of 192.0.2.7." || d.Rules[0].Nodes == nil || len(d.Rules[0].Nodes) != 0 {
			t.Errorf("%+v %v", d, err)
		}
		n.request(t, "192.0.2.7", "/bans", 3)
		d, err = n.Key([]string{"192.0.2.7"}, time.Now())
		if err != nil || d.Allowed || !strings.HasSuffix(d.Text, "since it kept exceeding its limit. Rule bans applies to some requests only.") {
			t.Errorf("%+v %v", d, err)
		}
		if got := d.Rules[0].Nodes; !slices.Equal(got, []string{"edge-1"}) {
			t.Errorf("counted by %v", got)
		}
		if d, err = n.Key([]string{"secret", "/a"}, time.Now()); err != nil || len(d.Rules) != 1 || strings.Contains(d.Key+d.Text, "secret") {
			t.Errorf("a key that must not be read: %+v %v", d, err)
		}
	})
}

// TestRequest answers for the rules that apply to a request, which find their keys in it.
func TestRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.request(t, "192.0.2.7", "/bans", 3)
		ask := func(client, path string, header ...string) *Document {
			d, err := n.Request(netip.MustParseAddr(client), &http.Request{Method: "GET", RequestURI: path, Host: "example.com", Header: http.Header{"X-Api-Key": header, "Cookie": {"sid=a"}}}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		if d := ask("192.0.2.7", "/bans"); d.Allowed || len(d.Rules) != 2 || !strings.HasSuffix(d.Text, "exceeding its limit.") {
			t.Errorf("%+v", d)
		}
		if d := ask("192.0.2.7", "/other"); !d.Allowed || len(d.Rules) != 1 || d.Rules[0].Level < 1 {
			t.Errorf("another path: %+v", d)
		}
		if d := ask("192.0.2.7", "/other", "secret"); !d.Allowed || len(d.Rules) != 2 || d.Rules[1].Rule != "key" || !strings.HasSuffix(d.Rules[1].Key, " /other") {
			t.Errorf("with a header: %+v", d)
		}
		if d := ask("192.0.2.200", "/other"); d.Allowed || d.List != "deny" {
			t.Errorf("on the deny list: %+v", d)
		}
		if d := ask("203.0.113.7", "/other"); d.Allowed || d.Rules[0].BannedBy != "operator" {
			t.Errorf("banned by an operator: %+v", d)
		}
	})
}

// TestReset empties a bucket, and says what still denies the client.
func TestReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, logs := newNode(t), new(testkit.Log)
		reset := func(body string) (*Done, error) {
			return n.Reset([]byte(body), "192.0.2.99", slog.New(slog.NewTextHandler(logs, nil)), time.Now())
		}
		n.request(t, "192.0.2.7", "/bans", 9)
		d, err := reset(`{"rule":"per-ip","key":["192.0.2.7"]}`)
		if a, err2 := n.Rule("per-ip", []string{"192.0.2.7"}, time.Now()); err != nil || err2 != nil || d.Hint != "" || a.Level != 0 || !a.Allowed {
			t.Errorf("%+v %v, then %+v %v", d, err, a, err2)
		}
		n.request(t, "192.0.2.2", "/", 9)
		d, err = reset(`{"rule":"per-ip","key":["192.0.2.2"]}`)
		if a, err2 := n.Rule("per-ip", []string{"192.0.2.2"}, time.Now()); err != nil || err2 != nil || a.Level != 0 {
			t.Errorf("with an override: %+v %v, then %+v %v", d, err, a, err2)
		}
		if d, err = reset(`{"rule":"bans","key":["192.0.2.7"]}`); err != nil || !strings.Contains(d.Hint, "fastlimit unban") {
			t.Errorf("banned: %+v %v", d, err)
		}
		if d, err = reset(`{"rule":"per-ip","key":["192.0.2.200"]}`); err != nil || !strings.Contains(d.Hint, "deny list") {
			t.Errorf("on the deny list: %+v %v", d, err)
		}
		if d, err = reset(`{"rule":"key","key":["secret","/a"]}`); err != nil || strings.Contains(d.Key+logs.String(), "secret") || !strings.Contains(logs.String(), "by=192.0.2.99") {
			t.Errorf("%+v %v, log %s", d, err, logs)
		}
	})
}

// TestValuesAreNotTriedOut: who may not change anything learns nothing of values of headers.
func TestValuesAreNotTriedOut(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	hash := n.Engine.HashKey("secret")
	n.Values = false
	_, rule := n.Rule("key", []string{"secret", "/a"}, time.Now())
	_, all := n.Key([]string{"secret", "/a"}, time.Now())
	_, request := n.Request(netip.MustParseAddr("192.0.2.7"), &http.Request{Method: "GET", RequestURI: "/", Header: http.Header{"X-Api-Key": {"secret"}}}, time.Now())
	for what, err := range map[string]error{"a rule": rule, "all rules": all, "a request": request} {
		if status, ok := err.(interface{ HTTPStatus() int }); !ok || status.HTTPStatus() != http.StatusForbidden || strings.Contains(err.Error(), hash) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := n.Rule("key", []string{hash, "/a"}, time.Now()); err == nil || !strings.Contains(err.Error(), "write the value itself") {
		t.Errorf("a hash of nobody: %v", err)
	}
	var s policy.Scratch
	n.Engine.Decide(t.Context(), &policy.Request{Client: netip.MustParseAddr("192.0.2.7"), Path: []byte("/a"), Fields: fields{&http.Request{Header: http.Header{"X-Api-Key": {"secret"}}}}}, &s)
	if a, err := n.Rule("key", []string{hash, "/a"}, time.Now()); err != nil || a.Key != hash+" /a" || a.Level == 0 {
		t.Errorf("a hash that top shows: %+v %v", a, err)
	}
	if d, err := n.Key([]string{"192.0.2.7"}, time.Now()); err != nil || !d.Allowed {
		t.Errorf("an address: %+v %v", d, err)
	}
}

// TestBadInput: each error says what is wrong and what a key of the rule looks like.
func TestBadInput(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	rule := func(name string, key ...string) error { _, err := n.Rule(name, key, time.Now()); return err }
	all := func(key ...string) error { _, err := n.Key(key, time.Now()); return err }
	reset := func(body string) error { _, err := n.Reset([]byte(body), "", slog.Default(), time.Now()); return err }
	_, host := n.Request(netip.MustParseAddr("192.0.2.7"), &http.Request{Method: "GET", RequestURI: "/", Host: "a b"}, time.Now())
	for want, err := range map[string]error{
		`404 no rule "x"; this node has per-ip, waits, shadow, changed, bans, key`:  rule("x", "192.0.2.7"),
		`422 key: rule "per-ip": key "x" is no client's address; write for example`: rule("per-ip", "x"),
		`422 key: rule "key": key has 1 part; want 2: header:X-Api-Key, path`:       rule("key", "a"),
		`422 key: rule "key": key part "a" is no canonical path`:                    rule("key", "s", "a"),
		`422 no rule has such a key; the last one checked says: rule "key"`:         all("a", "b", "c"),
		`422 such a request is refused before any rule is checked: host`:            host,
		`400 the body is not a reset: `:                                             reset(`{`),
		`400 the body is not a reset: key: want a list of texts`:                    reset(`{"rule":"per-ip","key":"x"}`),
		`404 no rule "y"`:                        reset(`{"rule":"y","key":["192.0.2.7"]}`),
		`422 key: rule "per-ip": key "x" is no`:  reset(`{"rule":"per-ip","key":["x"]}`),
		`422 rule per-ip does not limit this`:    reset(`{"rule":"per-ip","key":["192.0.2.1"]}`),
		`422 key: rule "per-ip": key has 0 part`: reset(`{"rule":"per-ip"}`),
	} {
		status, ok := err.(interface{ HTTPStatus() int })
		if err == nil || !ok || !strings.HasPrefix(fmt.Sprint(status.HTTPStatus(), " ", err), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
