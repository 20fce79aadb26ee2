package admin

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/breakdown"
)

// hostile is what clients and operators may write.
const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>'` + "`{{.}}"

type fakeBans struct{ Bans }

func (fakeBans) List(string, int) (any, error) {
	return map[string]any{"bans": []any{map[string]any{"key": hostile, "rule": "per-ip", "by": "rule", "reason": hostile, "seconds_left": 3700, "times": 3, "key_parts": []string{hostile}}}, "total": 70}, nil
}

type fakeOverrides struct{ Overrides }

func (fakeOverrides) List(string) (any, error) {
	return map[string]any{"overrides": []any{map[string]any{"rule": "per-ip", "key": []string{hostile}, "unlimited": true, "source": "live", "seconds_left": 59, "problem": hostile}}}, nil
}

type fakeRules struct{ LiveRules }

type fakeExplain struct{ Explainer }

func (fakeExplain) Key(key []string, trusted bool) (any, error) {
	if key[0] == "none" {
		return nil, errors.New("no rule has such a key: " + hostile)
	}
	if trusted {
		return nil, errors.New("the page tells more than others may read")
	}
	return map[string]any{"text": "It is over the limit. " + hostile, "rules": []any{map[string]any{"rule": "per-ip", "mode": "enforce", "allowed": false, "retry_after": 90, "stage": "table", "level": 20, "key": key[0], "key_parts": key}}}, nil
}

func pageOf(t *testing.T, path string, change ...func(*Config)) (text, security string) {
	t.Helper()
	resp := ask(fixed(change...), "GET", path, "")
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/html; charset=utf-8" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%v, %d %v: %s", err, resp.StatusCode, resp.Header, b)
	}
	return string(b), resp.Header.Get("Content-Security-Policy")
}

// The page shows what the node does, and whatever clients and operators have written stays text.
func TestPage(t *testing.T) {
	t.Parallel()
	share := 12.5
	full := func(c *Config) {
		c.Info = func() Info {
			return Info{Version: "v1", UptimeSeconds: 200000, Rules: []Rule{{Name: "per-ip", Mode: "enforce", Rate: "10/s", Burst: 20, LiveSecs: 600, SketchLoad: 0.62, Evictions: 9, Audit: &Audit{Clients: 7, Requests: 1234, Excess: 1, Peak: 1.01}}}, ListFiles: []ListFile{{List: "deny", File: "drop.txt", Entries: 5, Error: hostile}}}
		}
		c.Top = func(TopQuery) (Top, error) {
			return Top{
				Clients: []TopClient{{Rule: "per-ip", Key: hostile, Parts: []string{hostile}, Rate: 12_345, Denied: 12_000, Share: &share, Nodes: []string{hostile}, Banned: 13}},
				Totals:  TopTotals{Denied: 61_600, Rules: []TopRule{{Rule: "per-ip", Denied: 52_700}}, UntrustedProxies: []netip.Addr{netip.MustParseAddr("192.0.2.1")}},
			}, nil
		}
		c.Bans, c.Overrides, c.Explain = fakeBans{}, fakeOverrides{}, fakeExplain{}
		c.TopBy = func(by breakdown.By, _ int) TopBy {
			return TopBy{By: by.String(), Groups: []breakdown.Share{{Group: hostile, Rate: 45_600, Denied: 45_500, Share: 0.74}}}
		}
		c.Changes = func(int) any {
			return map[string]any{"changes": []any{map[string]any{"time": time.Now(), "by": hostile, "what": "ban set", "details": map[string]string{"reason": hostile}}}}
		}
		c.History = func() History {
			return History{Minutes: []Minute{
				{Seconds: 60, Admitted: 600, Denied: 5400, Rules: []RuleMinute{{Rule: "per-ip", Mode: "enforce", Admitted: map[string]uint64{"sketch": 600}, Denied: map[string]uint64{"table": 5400}}}},
				{Seconds: 30, Admitted: 300, Rules: []RuleMinute{{Rule: "per-ip", Mode: "enforce", Admitted: map[string]uint64{"sketch": 300}}}},
			}}
		}
		c.Ready = func() error { return errors.New("redis is down") }
	}
	text, security := pageOf(t, "/?key=192.0.2.7", full)
	if strings.Count(text, "<script") != 1 || strings.Contains(text, "<img") || strings.Contains(text, "onerror=alert(1)>'") || strings.Count(text, "&lt;script&gt;") < 9 {
		t.Errorf("what others have written is not text:\n%s", text)
	}
	for _, want := range []string{
		"61.6k</b>/s", "52.7k", "banned 13s", "1250 %", "up 2d", "10m", "1h01m", "70 in total", "It is over the limit.", "denied, again in 90s", "Not ready: redis is down",
		"192.0.2.1", `height="90"`, "<td class=\"r\">5400</td>", "<td class=\"r\">900</td>", "drop.txt: 5 entries",
		"62 % of the sketch in use, 9 buckets evicted", "45.6k", "74 %", "1234 requests of a sample, 7 clients now: 0 denied within the limit, 1 admitted above the bound", "101 % of the bound",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not on the page", want)
		}
	}
	if text, _ = pageOf(t, "/?key=none", full); !strings.Contains(text, "no rule has such a key") {
		t.Error("what is wrong with a key is not on the page")
	}
	for _, tag := range []string{"style", "script"} {
		inside := regexp.MustCompile("(?s)<" + tag + ">(.*)</" + tag + ">").FindStringSubmatch(text)
		sum := sha256.Sum256([]byte(inside[1]))
		if want := tag + "-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "';"; !strings.Contains(security, want) || !strings.HasPrefix(security, "default-src 'none';") {
			t.Errorf("%s, want %s", security, want)
		}
	}
	tags := regexp.MustCompile(`"[^"]*"`).ReplaceAllString(text, "")
	if inline := regexp.MustCompile(`<[^>]* (style|on[a-z]+)=`).FindString(tags); inline != "" {
		t.Errorf("%s is not in the policy", inline)
	}
	if loads := regexp.MustCompile(`(?:src|href|action)="([^"]*)"`).FindAllStringSubmatch(text, -1); len(loads) == 0 {
		t.Error("no links")
	} else {
		for _, l := range loads {
			if l[1] != "data:," && !strings.HasPrefix(l[1], "/") {
				t.Errorf("it loads %s", l[1])
			}
		}
	}
}

// Buttons make the calls that an operator would, for that client and no other, and there are none
// for what a node cannot do.
func TestPageButtons(t *testing.T) {
	t.Parallel()
	text, _ := pageOf(t, "/?key=192.0.2.7", func(c *Config) {
		c.Info = func() Info { return Info{Rules: []Rule{{Name: "per ip/1", LiveSecs: 60}}} }
		c.Bans, c.Overrides, c.Explain, c.Rules = fakeBans{}, fakeOverrides{}, fakeExplain{}, fakeRules{}
	})
	for _, want := range []string{
		`data-call="POST /v1/bans" data-body="{&#34;for&#34;:&#34;1h&#34;,&#34;key&#34;:&#34;192.0.2.7&#34;}" data-ask="Ban 192.0.2.7 for 1 hour"`,
		`data-call="DELETE /v1/bans?key=192.0.2.7"`,
		`data-call="POST /v1/reset" data-body="{&#34;key&#34;:[&#34;192.0.2.7&#34;],&#34;rule&#34;:&#34;per-ip&#34;}"`,
		`data-call="PUT /v1/overrides" data-body="{&#34;for&#34;:&#34;1h&#34;,&#34;key&#34;:[&#34;192.0.2.7&#34;],&#34;rule&#34;:&#34;per-ip&#34;,&#34;unlimited&#34;:true}"`,
		`data-call="DELETE /v1/bans?key=%22%3E%3Cscript%3E`,
		`rule=per-ip" data-ask="Unban &#34;&gt;`,
		`in rule per-ip">Unban`, `in per-ip">Delete`,
		`data-call="DELETE /v1/overrides?key=%22%3E%3Cscript%3E`,
		`data-call="DELETE /v1/rules/per%20ip%2F1"`,
		`<option>per ip/1</option>`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not on the page", want)
		}
	}
	buttons := regexp.MustCompile(`<button[^>]*data-call="([^"]*)"`)
	text, _ = pageOf(t, "/?key=192.0.2.7", func(c *Config) { c.Explain = fakeExplain{} })
	for _, b := range buttons.FindAllStringSubmatch(text, -1) {
		if b[1] != "POST /v1/reset" {
			t.Errorf("a button for %s, which this node cannot do", b[1])
		}
	}
	text, _ = pageOf(t, "/?key=GET", func(c *Config) { c.Explain, c.Bans = fakeExplain{}, fakeBans{} })
	if strings.Contains(text, "POST /v1/bans") {
		t.Error("who is no address can be banned")
	}
}

// A node without some of its parts has a page too, and so has one that tracks nobody.
func TestPageOfLittle(t *testing.T) {
	t.Parallel()
	text, _ := pageOf(t, "/", func(c *Config) {
		c.Top = func(TopQuery) (Top, error) { return Top{}, ErrNotTracked }
	})
	for _, want := range []string{"no client is tracked", "Nobody is banned.", "No client has an override.", "Nobody has changed anything", "Nothing yet."} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not on the page", want)
		}
	}
}
