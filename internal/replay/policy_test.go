package replay

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

func header(name string) policy.KeyPart {
	return policy.KeyPart{Kind: policy.KeyHeader, Name: name}
}

func cookieKey(name string) policy.KeyPart {
	return policy.KeyPart{Kind: policy.KeyCookie, Name: name}
}

// What of a log reaches the rules: each case is judged by a rule that admits
// one request for each key in a day.
func TestFieldsReachRules(t *testing.T) {
	t.Parallel()
	line := func(vhost, client, request, referer, agent string) string {
		return vhost + client + " - - " + stamp + ` "` + request + `" 200 1 "` + referer + `" "` + agent + "\"\n"
	}
	get := "GET /a HTTP/1.1"
	withHost := func(r policy.RuleSpec) policy.RuleSpec {
		r.Match.Hosts = []string{"*.example.com"}
		return r
	}
	withHeader := func(r policy.RuleSpec, name, value string) policy.RuleSpec {
		r.Match.Headers = []policy.HeaderMatch{{Name: name, Values: []string{value}}}
		return r
	}
	withoutHeader := func(r policy.RuleSpec, name, value string) policy.RuleSpec {
		r.Match.Not.Headers = []policy.HeaderMatch{{Name: name, Values: []string{value}}}
		return r
	}
	withPath := func(r policy.RuleSpec) policy.RuleSpec {
		r.Match.Paths = []string{"/a*"}
		r.Match.Methods = []string{"GET"}
		return r
	}
	for _, tt := range []struct {
		name, log string
		rule      policy.RuleSpec
		denied    int
		warning   string
	}{
		{
			"user agent", line("", "192.0.2.1", get, "-", "x") + line("", "192.0.2.2", get, "-", "x") + line("", "192.0.2.1", get, "-", "y"),
			rule("r", "1/d", 1, header("user-agent")), 1, "",
		}, {
			"no user agent", line("", "192.0.2.1", get, "-", "-") + line("", "192.0.2.1", get, "-", "-"),
			rule("r", "1/d", 1, header("User-Agent")), 0, `rule "r" does not apply: the log has no header:User-Agent`,
		}, {
			"referer", line("", "192.0.2.1", get, "u", "x") + line("", "192.0.2.2", get, "u", "y"),
			rule("r", "1/d", 1, header("Referer")), 1, "",
		}, {
			"another header", line("", "192.0.2.1", get, "u", "x") + line("", "192.0.2.1", get, "u", "x"),
			rule("r", "1/d", 1, header("X-Api-Key"), policy.KeyPart{Kind: policy.KeyCookie, Name: "sid"}), 0,
			`rule "r" does not apply: the log has no header:X-Api-Key, cookie:sid`,
		}, {
			"header match", line("", "192.0.2.1", get, "-", "bot/1") + line("", "192.0.2.1", get, "-", "bot/2") + line("", "192.0.2.1", get, "-", "x") + line("", "192.0.2.1", get, "-", "-"),
			withHeader(rule("r", "1/d", 1), "user-agent", "bot*"), 1, "",
		}, {
			"header that the log lacks", line("", "192.0.2.1", get, "-", "x") + line("", "192.0.2.1", get, "-", "x"),
			withHeader(rule("r", "1/d", 1), "X-Tier", "*"), 0, `rule "r" does not apply: the log has no header:X-Tier`,
		}, {
			"exempt by header", line("", "192.0.2.1", get, "-", "bot") + line("", "192.0.2.1", get, "-", "x") + line("", "192.0.2.1", get, "-", "-"),
			withoutHeader(rule("r", "1/d", 1), "User-Agent", "bot"), 1, "",
		}, {
			"exempt by a header that the log lacks", line("", "192.0.2.1", get, "-", "x") + line("", "192.0.2.1", get, "-", "x"),
			withoutHeader(rule("r", "1/d", 1), "X-Internal", "*"), 1, `rule "r" exempts nobody by its header: the log has no header:X-Internal`,
		}, {
			"method", line("", "192.0.2.1", get, "u", "x") + line("", "192.0.2.2", "POST /a HTTP/1.1", "u", "x") + line("", "192.0.2.1", "-", "-", "-"),
			rule("r", "1/d", 1, policy.KeyPart{Kind: policy.KeyMethod}), 0, "",
		}, {
			"canonical path", line("", "192.0.2.1", get, "-", "x") + line("", "192.0.2.2", "GET //x/%2e./%61?b HTTP/1.1", "-", "x"),
			rule("r", "1/d", 1, policy.KeyPart{Kind: policy.KeyPath}), 1, "",
		}, {
			"path and method match", line("", "192.0.2.1", get, "-", "x") + line("", "192.0.2.1", "GET /ab HTTP/1.1", "-", "x") +
				line("", "192.0.2.1", "HEAD /ab HTTP/1.1", "-", "x") + line("", "192.0.2.1", "GET /b HTTP/1.1", "-", "x"),
			withPath(rule("r", "1/d", 1)), 1, "",
		}, {
			"host", line("WWW.Example.com:443 ", "192.0.2.1", get, "-", "x") + line("www.example.com:80 ", "192.0.2.1", get, "-", "x") +
				line("", "192.0.2.1", get, "-", "x") + line("", "192.0.2.1", "GET http://www.example.com/ HTTP/1.1", "-", "x"),
			withHost(rule("r", "1/d", 1)), 2, "",
		}, {
			"no host", line("", "192.0.2.1", get, "-", "x") + line("", "192.0.2.1", get, "-", "x"),
			withHost(rule("r", "1/d", 1)), 0, "rules that need a host do not apply: no line contains one; vhost_combined and JSON logs do: r",
		}, {
			"global", line("", "192.0.2.1", get, "-", "x") + line("", "2001:db8::1", "-", "-", "x"),
			rule("r", "1/d", 1, policy.KeyPart{Kind: policy.KeyGlobal}), 1, "",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.rule.Limit.Strict = true
			r := mustRun(t, tt.log, config(policy.Settings{Rules: []policy.RuleSpec{tt.rule}}))
			if r.Denied != tt.denied || r.Requests != strings.Count(tt.log, "\n") {
				t.Errorf("denied %d of %d, want %d", r.Denied, r.Requests, tt.denied)
			}
			if got := strings.Join(r.Warnings, "|"); got != tt.warning {
				t.Errorf("warning %q, want %q", got, tt.warning)
			}
		})
	}
}

func TestListsAndModes(t *testing.T) {
	t.Parallel()
	hits := func(client string) string {
		return repeat(5, client+" - - "+stamp+` "GET / HTTP/1.1" 200 1`)
	}
	loose, tight, shadow := rule("loose", "1/d", 4), rule("tight", "1/d", 2), rule("shadow", "1/d", 1)
	for _, r := range []*policy.RuleSpec{&loose, &tight, &shadow} {
		r.Limit.Strict = true
	}
	shadow.Limit.Mode = fastlimit.Shadow
	r := mustRun(t, hits("192.0.2.1")+hits("10.0.0.1")+hits("203.0.113.9"), config(policy.Settings{
		Rules: []policy.RuleSpec{loose, shadow, tight},
		Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Deny:  []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")},
	}))
	got := toJSON(t, r)
	want := `{"requests":15,"skipped":0,"allowed":7,"denied":8,"clients":[` +
		`{"rule":"deny","key":"203.0.113.9","requests":5,"denied":5,"over_limit":false,"exact_denied":0,"key_parts":["203.0.113.9"]},` +
		`{"rule":"tight","key":"192.0.2.1","requests":5,"denied":3,"over_limit":true,"exact_denied":3,"key_parts":["192.0.2.1"]}],`
	if !strings.HasPrefix(got, want) {
		t.Errorf("got  %s\nwant %s…", got, want)
	}
	for i, denied := range []uint64{0, 4, 3} {
		var sum uint64
		for _, s := range r.Rules[i].Stages {
			sum += s.Denied
		}
		if sum != denied {
			t.Errorf("rule %s denied %d, want %d", r.Rules[i].Name, sum, denied)
		}
	}
	var text strings.Builder
	if err := r.WriteText(&text, 1); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 of 2 clients denied", "deny", "on the deny list", "rule shadow: 1/d, burst 1, shadow"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "192.0.2.1") {
		t.Errorf("more than one client shown:\n%s", text.String())
	}
}

// The oracle counts paths in any case as one where the rule does.
func TestIgnoreCaseOfPaths(t *testing.T) {
	t.Parallel()
	spec := rule("r", "1/d", 2, policy.KeyPart{Kind: policy.KeyIP}, policy.KeyPart{Kind: policy.KeyPath})
	spec.Match = policy.Match{Paths: []string{"/LOGIN"}, IgnoreCase: true}
	spec.Limit.Strict = true
	var log strings.Builder
	for i, path := range []string{"/login", "/Login", "/LOGIN", "/logIN", "/other", "/OTHER"} {
		fmt.Fprintf(&log, "192.0.2.1 - - [17/May/2015:10:05:%02d +0000] \"GET %s HTTP/1.1\" 200 1\n", i, path)
	}
	r := mustRun(t, log.String(), config(policy.Settings{Rules: []policy.RuleSpec{spec}}))
	if r.Denied != 2 || len(r.Clients) != 1 || r.Clients[0].Key != "192.0.2.1 /login" || r.Clients[0].ExactDenied != 2 || !r.Clients[0].OverLimit || r.FalseDenials != 0 {
		t.Errorf("%+v", r)
	}
}
