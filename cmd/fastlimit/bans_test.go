package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fastlimit/fastlimit/internal/cli"
)

// Operators ban, see and unban on a running node, without a word of configuration.
func TestBanAndUnban(t *testing.T) {
	t.Parallel()
	p := serve(t, "-c", writeFile(t, "c.yaml", "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nallow: [127.0.3.7]\ndeny_status: 403\nrules: [{name: r, rate: 1000/s}]\n"))
	from := func(addr string) string {
		resp, body := get(t, clientFrom(t, addr), "http://"+p.listen+"/")
		return fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("Retry-After"), body)
	}
	run := func(want string, args ...string) {
		t.Helper()
		code, stdout, stderr := command(t, nil, append(args, "--admin", p.admin)...)
		if got := regexp.MustCompile(`\b29m59s|7199\.\d+`).ReplaceAllString(fmt.Sprint(code, " ", stdout, strings.ReplaceAll(stderr, p.admin, "ADMIN")), "SOON"); got != want {
			t.Errorf("%q: got\n%s\nwant\n%s", args, got, want)
		}
	}
	run("0 KEY  BY  RULE  ENDS IN  TIMES  KERNEL  REASON\n", "bans")
	run("0 127.0.3.0/24: banned, ends in 1h0m0s; not banned, as they are on the allow list: 127.0.3.7/32\n", "ban", "127.0.3.0/24")
	run("0 127.0.4.1: banned, ends in 30m0s\n", "ban", "127.0.4.1", "--for", "30m")
	run(`0 {"key":"2001:db8::/48","rule":"","by":"operator","seconds_left":7200,"times":1,"kernel":false,"key_parts":["2001:db8::/48"]}`+"\n", "ban", "2001:db8::/48", "--for", "2h", "-o", "json")
	for addr, want := range map[string]string{"127.0.3.1": "403 3", "127.0.4.1": "403 1", "127.0.3.7": "200 ", "127.0.5.1": "200 "} {
		if got := from(addr); !strings.HasPrefix(got, want) || want == "200 " && got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
	if got := from("127.0.3.1"); !strings.Contains(got, `"status":403,"detail":"The client is banned.","violated-policies":["ban"]`) {
		t.Error(got)
	}
	code, stdout, _ := command(t, nil, "bans", "--admin", p.admin, "--limit", "2")
	if want := regexp.MustCompile(`^KEY            BY        RULE  ENDS IN +TIMES  KERNEL  REASON
2001:db8::/48  operator        \S+ +1      -       -
127\.0\.3\.0/24   operator        \S+ +1      -       -
and 1 more
$`); code != 0 || !want.MatchString(stdout) {
		t.Errorf("%d\n%s", code, stdout)
	}
	if code, stdout, _ := command(t, nil, "bans", "--admin", p.admin, "-o", "json"); code != 0 || !strings.HasPrefix(stdout, `{"bans":[{"key":"2001:db8::/48","rule":"","by":"operator","seconds_left":7`) || !strings.HasSuffix(stdout, `"total":3}`+"\n") {
		t.Errorf("%d %s", code, stdout)
	}
	if n := p.metric(t, "fastlimit_operator_bans"); n != 3 {
		t.Errorf("%v are counted", n)
	}
	run("1 fastlimit unban: ADMIN: 127.0.3.1 is not banned; 127.0.3.0/24, which contains it, is: unban that\n", "unban", "127.0.3.1")
	run("0 127.0.3.0/24: unbanned, was banned by an operator\n", "unban", "127.0.3.0/24")
	run(`0 {"unbanned":[{"key":"127.0.4.1","rule":"","by":"operator"}]}`+"\n", "unban", "127.0.4.1", "-o", "json")
	for _, addr := range []string{"127.0.3.1", "127.0.4.1"} {
		if got := from(addr); got != "200 " {
			t.Errorf("%s: %s", addr, got)
		}
	}
	run("2 fastlimit: 127.0.3.1/24 has bits set beyond its length; write 127.0.3.0/24, or 127.0.3.1 for the address alone\n", "ban", "127.0.3.1/24")
	run("2 fastlimit: 0.0.0.0/0 is shorter than a /8, and would refuse too many; ban at least a /8, for example 192.0.2.0/24, or write the prefix into deny\n", "ban", "0.0.0.0/0")
	run("1 fastlimit ban: ADMIN: for: 8808h0m0s is out of range; want 1s to 8784h0m0s\n", "ban", "127.0.3.1", "--for", "367d")
	run("1 fastlimit ban: ADMIN: for: 0s is out of range; want 1s to 8784h0m0s\n", "ban", "127.0.3.1", "--for", "0s")
	run("1 fastlimit bans: ADMIN: limit=99999: want a whole number from 1 to 10000\n", "bans", "--limit", "99999")
	for _, line := range []string{`msg="ban set" by=127.0.0.1 key=127.0.3.0/24 for=1h0m0s until=`, `msg="ban ended" by=127.0.0.1 key=127.0.3.0/24 rule=""`} {
		p.waitLog(line)
	}
}

// An answer of another program at --admin is an error, and what it says cannot steer a terminal.
func TestAnswersOfStrangers(t *testing.T) {
	t.Parallel()
	var reply atomic.Value
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, reply.Load()) }))
	defer s.Close()
	for _, c := range []struct {
		args, reply string
		code        int
		want        string
	}{
		{"bans", `{}`, cli.ExitFailure, "is it the admin listener of fastlimit?"},
		{"bans", `<html>`, cli.ExitFailure, "is it the admin listener of fastlimit?"},
		{"bans", `{"bans":[{"key":"\u001b[2J","rule":"\u001b","by":"\u001b"}],"total":1}`, 0, `"\x1b[2J"`},
		{"bans -o json", `{}`, cli.ExitFailure, "is it the admin listener of fastlimit?"},
		{"ban -o json 192.0.2.1", `{}`, cli.ExitFailure, "is it the admin listener of fastlimit?"},
		{"ban -o json 192.0.2.1", `{"key":"192.0.2.1/32"}`, 0, `{"key":"192.0.2.1/32"}`},
		{"changes -o json", `<html>`, cli.ExitFailure, "is it the admin listener of fastlimit?"},
		{"reload -o json", `{}`, cli.ExitFailure, "is it the admin listener of fastlimit?"},
		{"rule -o json", `{}`, cli.ExitFailure, "is it the admin listener of fastlimit?"},
		{"rule -o json a burst=2", `{}`, cli.ExitFailure, "is it the admin listener of fastlimit?"},
		{"override delete a 192.0.2.1", `{}`, cli.ExitFailure, "is it the admin listener of fastlimit?"},
		{"ban 192.0.2.1", `{}`, cli.ExitFailure, "is it the admin listener of fastlimit?"},
		{"ban 192.0.2.1", `{"key":"\u001b[2J","seconds_left":1}`, 0, `"\x1b[2J": banned, ends in 1s`},
		{"unban 192.0.2.1", `{"unbanned":[]}`, cli.ExitFailure, "is it the admin listener of fastlimit?"},
		{"unban 192.0.2.1", `{"unbanned":[{"key":"\u001b[2J","rule":"\u001b"}]}`, 0, `"\x1b[2J": unbanned, was banned by rule "\x1b"`},
		{"bans --limit 0", ``, cli.ExitUsage, "--limit 0: want 1 to 10000"},
		{"ban", ``, cli.ExitUsage, "prefix"},
		{"unban", ``, cli.ExitUsage, "key"},
	} {
		reply.Store(c.reply)
		code, stdout, stderr := command(t, nil, append(strings.Fields(c.args), "--admin", strings.TrimPrefix(s.URL, "http://"))...)
		if code != c.code || !strings.Contains(stdout+stderr, c.want) || strings.Contains(stdout+stderr, "\x1b") {
			t.Errorf("%s on %s: exit %d, %q, %q; want %d and %q", c.args, c.reply, code, stdout, stderr, c.code, c.want)
		}
	}
}

// What a rule bans is listed, logged and ended the same way; of several rules by name.
func TestBansOfRulesByCommand(t *testing.T) {
	t.Parallel()
	p := serve(t, "-c", writeFile(t, "c.yaml", `listen: 127.0.0.1:0
admin: 127.0.0.1:0
rules:
  - {name: ip, rate: 1/h, burst: 1, strict: true, ban: {after: 1, for: 1h}}
  - {name: both, key: [method, path], rate: 1/h, burst: 1, strict: true, match: {path: /x}, ban: {after: 1, for: 2h}}
`))
	from := func(addr, path string) int {
		resp, _ := get(t, clientFrom(t, addr), "http://"+p.listen+path)
		return resp.StatusCode
	}
	for _, q := range []struct {
		addr, path string
		want       int
	}{{"127.0.0.2", "/", 200}, {"127.0.0.2", "/", 429}, {"127.0.0.3", "/x", 200}, {"127.0.0.4", "/x", 429}} {
		if got := from(q.addr, q.path); got != q.want {
			t.Errorf("%+v: %d", q, got)
		}
	}
	p.waitLog("msg=banned client=127.0.0.2 rule=ip key=127.0.0.2 for=3600 times=1")
	p.waitLog(`msg=banned client="" rule=both key="GET /x" for=7200 times=1`)
	run := func(want string, args ...string) {
		t.Helper()
		code, stdout, stderr := command(t, nil, append(args, "--admin", p.admin)...)
		if got := fmt.Sprint(code, " ", stdout, stderr); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%q: got\n%s\nwant\n%s", args, got, want)
		}
	}
	run(`^0 KEY +BY +RULE +ENDS IN +TIMES +KERNEL +REASON\nGET /x +rule +both +\S+ +1 +- +-\n127\.0\.0\.2 +rule +ip +\S+ +1 +- +-\n$`, "bans")
	run(`^0 KEY +BY +RULE +ENDS IN +TIMES +KERNEL +REASON\n127\.0\.0\.2 `, "bans", "ip")
	run(`^1 fastlimit bans: \S+ no rule "nope"; this node has ip, both\n$`, "bans", "nope")
	run(`^1 fastlimit unban: \S+ 127\.0\.0\.3 is not banned\n$`, "unban", "127.0.0.3")
	run(`^0 GET /x: unbanned, was banned by rule both\n$`, "unban", "GET", "/x")
	run(`^0 127\.0\.0\.2: unbanned, was banned by rule ip\n$`, "unban", "127.0.0.2", "--rule", "ip")
	run(`^0 KEY +BY +RULE +ENDS IN +TIMES +KERNEL +REASON\n$`, "bans")
	if n := p.metric(t, `fastlimit_bans_total{mode="enforce",rule="ip"}`); n != 1 {
		t.Errorf("%v are counted", n)
	}
	if n := p.metric(t, `fastlimit_bans_active{rule="ip"}`); n != 0 {
		t.Errorf("%v are active", n)
	}
}

// Many are banned at once, from arguments, a file and standard input, or none if one of them is
// nobody; what is hardly meant wants --force, and others see why.
func TestBanMany(t *testing.T) {
	t.Parallel()
	p := serve(t, "-c", writeFile(t, "c.yaml", "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\ntrusted_proxies: [192.0.2.0/28]\nrules: [{name: r, rate: 1000/s}]\n"))
	run := func(stdin string, want string, args ...string) {
		t.Helper()
		code, stdout, stderr := command(t, strings.NewReader(stdin), append(args, "--admin", p.admin)...)
		if got := fmt.Sprint(code, " ", stdout, strings.ReplaceAll(stderr, p.admin, "ADMIN")); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%q: got\n%s\nwant\n%s", args, got, want)
		}
	}
	file := writeFile(t, "list", "# of today\n203.0.113.0/24 # a network\n\n 2001:db8::7\n")
	run("", "^0 198.51.100.1: banned, ends in 2h0m0s\n203.0.113.0/24: banned, ends in 2h0m0s\n2001:db8::7: banned, ends in 2h0m0s; most clients have a whole /64 .* 2001:db8::/64 bans all of it\n$",
		"ban", "198.51.100.1", "--file", file, "--for", "2h", "--reason", "scraper; see #12")
	run("198.51.100.2\n198.51.100.3\n", "^0 198.51.100.2: banned.*\n198.51.100.3: banned.*\n$", "ban", "--file", "-")
	bad := writeFile(t, "bad", "198.51.100.4\n198.51.100.5/24\n")
	run("", "^2 fastlimit: "+regexp.QuoteMeta(bad)+":2: 198.51.100.5/24 has bits set beyond its length; write 198.51.100.0/24", "ban", "--file", bad)
	run("", "^2 fastlimit: 0 addresses and prefixes to ban: want 1 to 10000", "ban")
	run("", "^1 fastlimit ban: open "+regexp.QuoteMeta(bad)+"x: no such file", "ban", "--file", bad+"x")
	for prefix, why := range map[string]string{"127.0.0.1": "is, or contains, an address of this machine", "192.0.2.8/29": "has the address of a trusted proxy"} {
		run("", "^1 198.51.100.6: banned.*\nfastlimit ban: ADMIN: "+prefix+" "+why+`: to do it anyway, send "force":true \(fastlimit ban --force\)`+"\n$", "ban", prefix, "198.51.100.6")
	}
	run("", "^0 192.0.2.8/29: banned", "ban", "192.0.2.8/29", "--force")
	run("", `(?m)^198\.51\.100\.1 .* scraper; see #12$`, "bans")
	run("", `"key":"203.0.113.0/24",.*"reason":"scraper; see #12"`, "bans", "-o", "json")
	for _, listed := range []string{"198.51.100.4", "127.0.0.1"} {
		if _, stdout, _ := command(t, nil, "bans", "--admin", p.admin); strings.Contains(stdout, listed+" ") {
			t.Errorf("%s is banned:\n%s", listed, stdout)
		}
	}
}

// TestForgottenProxy: whoever forgets trusted_proxies is told where the flood seems to come from,
// and cannot ban all clients by banning the proxy.
func TestForgottenProxy(t *testing.T) {
	t.Parallel()
	config := writeFile(t, "c.yaml", "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nrules: [{name: r, rate: 1/h, burst: 1}]\n")
	p := serve(t, "-c", config)
	for range 3 {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+p.listen+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Forwarded-For", "203.0.113.7")
		resp, err := clientFrom(t, "127.0.6.1").Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	const warning = "WARNING: other clients come through 127.0.6.1: all of them count as one client until trusted_proxies names it\n"
	top := func() string {
		_, text, stderr := command(t, nil, "top", "--once", "--admin", p.admin)
		return text + stderr
	}
	if got := top(); !strings.HasPrefix(got, warning+"RULE") {
		t.Errorf("top: %s", got)
	}
	if code, _, stderr := command(t, nil, "ban", "127.0.6.1", "--admin", p.admin); code != 1 || !strings.Contains(stderr, "127.0.6.1 has the address of a proxy, through which others come: it is not in trusted_proxies") {
		t.Errorf("ban: %d %s", code, stderr)
	}
	if n := p.metric(t, "fastlimit_untrusted_proxy_requests_total"); n != 3 {
		t.Errorf("%v requests are counted", n)
	}
}
