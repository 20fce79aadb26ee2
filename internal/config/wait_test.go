package config

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/limit"
)

func TestWaitSettings(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "wait: {per_key: 3, total: 500}\nrules: [{name: a, rate: 5/s, max_wait: 1500ms}, {name: b, rate: 1/s}]")
	lc := c.Limiter()
	if lc.Wait != (fastlimit.WaitLimits{PerKey: 3, Total: 500}) || lc.Rules[0].MaxWait != 1500*time.Millisecond || lc.Rules[1].MaxWait != 0 {
		t.Errorf("%+v", lc)
	}
	if lc := mustParse(t, rule).Limiter(); lc.Wait != (fastlimit.WaitLimits{PerKey: limit.DefaultWaitersPerKey, Total: limit.DefaultWaiters}) {
		t.Errorf("by default %+v", lc.Wait)
	}
	for _, limit := range []string{"legacy: {max: 10, duration: 10s}", "bucket: {size: 10, drip_rate: 1s}", "rate: 5/s, algorithm: token_bucket"} {
		if lc := mustParse(t, "rules: [{name: a, max_wait: 2s, "+limit+"}]").Limiter(); lc.Rules[0].MaxWait != 2*time.Second {
			t.Errorf("%s: %+v", limit, lc.Rules[0])
		}
	}
	text := Describe(c, plan(t, c))
	if want := "waiting: at most 500 requests, 3 for each client of a rule, 1000 KiB on top of memory\n"; !strings.Contains(text, want) {
		t.Errorf("%s\nlacks %s", text, want)
	}
	if c := mustParse(t, rule); strings.Contains(Describe(c, plan(t, c)), "waiting") {
		t.Error("nobody waits")
	}
}

// Settings by which nobody would wait, or too long, are errors where they stand.
func TestWaitErrors(t *testing.T) {
	t.Parallel()
	const periodic, shadow = "all waiting requests would be admitted at once when it has room again; remove it, or choose leaky_bucket", "rules[0].max_wait: has no effect in mode: shadow, which delays nobody; remove it until the rule is enforced"
	for settings, want := range map[string]string{
		"max_wait: 61m":                                     `1:40: rules[0].max_wait: 61m is out of range; want 1ms to 1h`,
		"max_wait: 0s":                                      `1:40: rules[0].max_wait: 0s is out of range; want 1ms to 1h`,
		"max_wait: 2":                                       `1:40: rules[0].max_wait: `,
		"max_wait: -1s":                                     `1:40: rules[0].max_wait: `,
		"max_wait: 2s, algorithm: fixed_window":             "1:40: rules[0].max_wait: has no meaning with algorithm: fixed_window: " + periodic,
		"algorithm: sliding_window, max_wait: 2s":           "1:67: rules[0].max_wait: has no meaning with algorithm: sliding_window: " + periodic,
		"max_wait: 2s, algorithm: sliding_log":              "1:40: rules[0].max_wait: has no meaning with algorithm: sliding_log: " + periodic,
		"max_wait: 2s, mode: shadow":                        "1:40: " + shadow,
		"mode: '${SHADOW}', max_wait: 2s":                   "1:59: " + shadow,
		"max_wait: 2s}]\nwait: {per_key: 0}\nx: [{x: 1":     "2:17: wait.per_key: 0 is too small",
		"max_wait: 2s}]\nwait: {total: 2000000}\nx: [{x: 1": "2:15: wait.total: 2000000 is out of range; want 1 to 1048576",
		"max_wait: 2s}]\nwait: {max: 5}\nx: [{x: 1":         "2:8: wait.max: unknown setting; ",
		"max_wait: 2s}]\nwait: 5\nx: [{x: 1":                "2:7: wait: found ",
		"per_key: 5":                                        "1:30: rules[0].per_key: unknown setting",
	} {
		_, err := Parse("f.yaml", []byte("rules: [{name: a, rate: 5/s, "+settings+"}]"), func(name string) (string, bool) { return "shadow", name == "SHADOW" })
		if err == nil || !strings.HasPrefix(err.Error(), "f.yaml:"+want) {
			t.Errorf("%s:\ngot  %v\nwant %s", settings, err, want)
		}
	}
}

func TestWaitWarnings(t *testing.T) {
	t.Parallel()
	const waits = "rules: [{name: a, rate: 100/s, max_wait: %}]\n"
	for _, tt := range []struct {
		most, text string
		want       string
	}{
		{"2s", "", ""},
		{"2s", "wait: {per_key: 5}", ""},
		{"99ms", "trusted_proxies: [127.0.0.1/32]", ""},
		{"100ms", "trusted_proxies: [127.0.0.1/32]", "rule a: max_wait: 100ms is longer than proxies that are configured as in docs/recipes wait, 100ms"},
		{"2s", "trusted_proxies: [127.0.0.1/32]\noriginal_request: x-original", "rule a: max_wait: 2s is longer than proxies"},
		{"29s", "trusted_proxies: [127.0.0.1/32]\nupstream: http://127.0.0.1:3000", ""},
		{"30s", "trusted_proxies: [127.0.0.1/32]\nupstream: http://127.0.0.1:3000", "rule a: max_wait: 30s plus upstream.response_timeout, 30s, is longer than proxies"},
		{"30s", "upstream: http://127.0.0.1:3000", ""},
		{"2s", "wait: {total: 300}\nconnections: {max: 299}", "wait.total: 300 is above connections.max, 299: "},
		{"2s", "connections: {max: 9999}", "wait.total: 10000 is above connections.max, 9999: "},
		{"", "wait: {per_key: 5}", "wait: no rule has a max_wait, so nobody waits"},
		{"", "connections: {max: 10}\ntrusted_proxies: [127.0.0.1/32]", ""},
	} {
		text := strings.Replace(waits, "%", tt.most, 1) + tt.text
		if tt.most == "" {
			text = "rules: [{name: a, rate: 100/s}]\n" + tt.text
		}
		c := mustParse(t, text)
		got := Warnings(c, plan(t, c))
		if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], tt.want)) {
			t.Errorf("%s:\ngot  %q\nwant %q", text, got, tt.want)
		}
	}
}

// The bound of the warning, the recipes and the table of the documentation agree.
func TestProxyPatience(t *testing.T) {
	t.Parallel()
	doc := repoFile(t, "docs/configuration.md")
	for file, of := range map[string]struct {
		setting string
		want    time.Duration
	}{
		"nginx.conf":        {"proxy_read_timeout", proxyPatience},
		"Caddyfile":         {"response_header_timeout", proxyPatience},
		"haproxy.cfg":       {"http-request lua.fastlimit 127.0.0.1:8080", proxyPatience},
		"apache.lua":        {"local timeout_ms =", proxyPatience},
		"apisix.yaml":       {"timeout:", proxyPatience},
		"envoy.yaml":        {"timeout:", proxyPatience},
		"nginx-proxy.conf":  {"proxy_read_timeout", forwardPatience},
		"varnish.vcl":       {".first_byte_timeout =", forwardPatience},
		"apache-proxy.conf": {"ProxyTimeout", forwardPatience},
	} {
		found := regexp.MustCompile(`(?m)^\s*`+regexp.QuoteMeta(of.setting)+`\s+([\w.]+);?(?:\s*#.*)?$`).FindAllStringSubmatch(repoFile(t, "docs/recipes/"+file), -1)
		if len(found) != 1 {
			t.Fatalf("%s: %d lines with %s", file, len(found), of.setting)
		}
		text := found[0][1]
		switch {
		case file == "apache-proxy.conf":
			text += "s"
		case !strings.HasSuffix(text, "s"):
			text += "ms"
		}
		patience, err := time.ParseDuration(text)
		if err != nil || patience != of.want {
			t.Errorf("%s: %s is %v, %v; the warning has %v", file, of.setting, patience, err, of.want)
		}
		if row := "| `" + of.setting + "` | " + found[0][1] + " |"; !strings.Contains(doc, row) {
			t.Errorf("docs/configuration.md lacks %s", row)
		}
	}
}
