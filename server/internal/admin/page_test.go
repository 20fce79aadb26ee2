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
)

// hostile is what clients and operators may write.
const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>'` + "`{{.}}"

type fakeBans struct{ Bans }

func (fakeBans) List(string, int) (any, error) {
	return map[string]any{"bans": []any{map[string]any{"key": hostile, "rule": "per-ip", "by": "rule", "reason": hostile, "seconds_left": 3700, "times": 3}}, "total": 70}, nil
}

type fakeOverrides struct{ Overrides }

func (fakeOverrides) List(string) (any, error) {
	return map[string]any{"overrides": []any{map[string]any{"rule": "per-ip", "key": []string{hostile}, "unlimited": true, "source": "live", "seconds_left": 59, "problem": hostile}}}, nil
}

type fakeExplain struct{ Explainer }

func (fakeExplain) Key(key []string, trusted bool) (any, error) {
	if key[0] == "none" {
		return nil, errors.New("no rule has such a key: " + hostile)
	}
	if trusted {
		return nil, errors.New("the page tells more than others may read")
	}
	return map[string]any{"text": "It is over the limit. " + hostile, "rules": []any{map[string]any{"rule": "per-ip", "mode": "enforce", "allowed": false, "retry_after": 90, "stage": "table", "level": 20}}}, nil
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
			return Info{Version: "v1", UptimeSeconds: 200000, Rules: []Rule{{Name: "per-ip", Mode: "enforce", Rate: "10/s", Burst: 20, LiveSecs: 600}}, ListFiles: []ListFile{{List: "deny", File: "drop.txt", Entries: 5, Error: hostile}}}
		}
		c.Top = func(TopQuery) (Top, error) {
			return Top{
				Clients: []TopClient{{Rule: "per-ip", Key: hostile, Parts: []string{hostile}, Rate: 12_345, Denied: 12_000, Share: &share, Nodes: []string{hostile}, Banned: 13}},
				Totals:  TopTotals{Denied: 61_600, Rules: []TopRule{{Rule: "per-ip", Denied: 52_700}}, UntrustedProxies: []netip.Addr{netip.MustParseAddr("192.0.2.1")}},
			}, nil
		}
		c.Bans, c.Overrides, c.Explain = fakeBans{}, fakeOverrides{}, fakeExplain{}
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
	if strings.Contains(text, "<script") || strings.Contains(text, "<img") || strings.Contains(text, "onerror=alert(1)>'") || strings.Count(text, "&lt;script&gt;") < 9 {
		t.Errorf("what others have written is not text:\n%s", text)
	}
	for _, want := range []string{
		"61.6k</b>/s", "52.7k", "banned 13s", "1250 %", "up 2d", "10m", "1h01m", "70 in all", "It is over the limit.", "denied, again in 90s", "Not ready: redis is down",
		"192.0.2.1", `height="90"`, "<td class=\"r\">5400</td>", "<td class=\"r\">900</td>", "drop.txt: 5 entries",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not on the page", want)
		}
	}
	if text, _ = pageOf(t, "/?key=none", full); !strings.Contains(text, "no rule has such a key") {
		t.Error("what is wrong with a key is not on the page")
	}
	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(text)
	sum := sha256.Sum256([]byte(style[1]))
	if want := "style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(security, want) || !strings.HasPrefix(security, "default-src 'none';") || strings.Contains(text, "style=") {
		t.Errorf("%s, want %s", security, want)
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

// A node without some of its parts has a page too, and so has one that tracks nobody.
func TestPageOfLittle(t *testing.T) {
	t.Parallel()
	text, _ := pageOf(t, "/", func(c *Config) {
		c.Top = func(TopQuery) (Top, error) { return Top{}, ErrNotTracked }
	})
	for _, want := range []string{"no client is tracked", "Nobody is banned.", "Nobody has a limit of their own.", "Nobody has changed anything", "Nothing yet."} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not on the page", want)
		}
	}
}
