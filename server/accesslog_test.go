package server

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/policy"
)

// accessLine is what the tests look at in a line of the access log.
type accessLine struct {
	Time                                               time.Time
	Client, Peer, Method, Host, Path, Upstream         string
	Status, Bytes                                      int
	Duration                                           float64
	Decision, Rule, Stage, Reason, User_Agent, Referer string
	Reused                                             bool
}

func readAccessLog(t *testing.T, name string) (all []accessLine) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var l accessLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if since := time.Since(l.Time); since < -time.Minute || since > time.Hour || l.Duration < 0 || l.Duration > 60 {
			t.Errorf("%q", line)
		}
		all = append(all, l)
	}
	return all
}

// Each answer has its line, whichever way it was made, and both ways write the same.
func TestAccessLog(t *testing.T) {
	t.Parallel()
	for i, body := range []string{"\r\n", "Content-Length: 1\r\n\r\nx"} { // a resident's, and fasthttp's
		path := []string{"/x", "/x?y=1"}[i]
		name := filepath.Join(t.TempDir(), "access.log")
		set := perIP()
		set.TrustedProxies, set.OriginalRequest = loopback(), policy.OriginalXOriginal
		set.Rules[0].Limit.Burst, set.Rules[0].Limit.Rate.Per = 1, time.Hour
		set.Rules = append(set.Rules, policy.RuleSpec{Limit: perIP().Rules[0].Limit, Key: []policy.KeyPart{{Kind: policy.KeyGlobal}}, CostFrom: policy.CostSource{Header: "X-Cost"}})
		set.Rules[1].Limit.Name, set.Rules[1].Limit.Burst, set.Rules[1].Limit.Rate.N = "all", 1000, 1000
		set.Deny = loopback()
		s := start(t, set, func(c *Config) { c.AccessLog = AccessLog{File: name, Queries: i == 1} })
		from := func(client, more string) string {
			return "GET /auth?a=\"b HTTP/1.1\r\nHost: a.example\r\nX-Original-URI: /x?y=1\r\nX-Forwarded-For: " + client + "\r\nUser-Agent: u\r\n" + more
		}
		responses := raw(t, s.addr, from("10.0.0.1", "")+body+from("10.0.0.1", "Referer: r\r\n")+body+from("127.1.1.1", "Connection: close\r\n")+body)
		responses = append(responses, raw(t, s.addr, from("10.0.0.2", "X-Cost: none\r\n")+body)...)
		responses = append(responses, raw(t, s.addr, "GET / HTTP/1.1\r\nHost: a b\r\nUser-Agent: v\r\n"+body)...)
		if err := s.stop(); err != nil {
			t.Fatal(err)
		}
		want := []accessLine{
			{Client: "10.0.0.1", Path: path, Status: 200, Decision: "allow", Rule: "per-ip", Stage: "exact", User_Agent: "u"},
			{Client: "10.0.0.1", Path: path, Status: 429, Decision: "deny", Rule: "per-ip", Stage: "table", User_Agent: "u", Referer: "r", Reused: true},
			{Client: "127.1.1.1", Path: path, Status: 403, Decision: "deny", Stage: "list", User_Agent: "u", Reused: true},
			{Client: "10.0.0.2", Path: path, Status: 400, Decision: "refused", Rule: "all", Reason: "cost", User_Agent: "u"},
			{Client: "127.0.0.1", Path: "/", Status: 400, Decision: "refused", Reason: "malformed", User_Agent: "v"},
		}
		got := readAccessLog(t, name)
		if len(got) != len(want) || len(responses) != len(want) {
			t.Fatalf("%d lines for %d answers, want %d: %+v", len(got), len(responses), len(want), got)
		}
		for i := range got {
			g, w := got[i], want[i]
			w.Time, w.Duration, w.Peer, w.Method, w.Host = g.Time, g.Duration, g.Peer, "GET", "a.example"
			if w.Bytes = len(readAll(t, responses[i])); w.Status != responses[i].StatusCode {
				t.Errorf("answer %d: %d", i, responses[i].StatusCode)
			}
			if w.Reason != "" { // what is known of it depends on who has refused it
				w.Client, w.Path, w.Host, w.Rule, w.Stage = g.Client, g.Path, g.Host, g.Rule, g.Stage
			}
			if w.Status == 200 {
				w.Rule, w.Stage = g.Rule, g.Stage
			}
			if fmt.Sprintf("%+v", g) != fmt.Sprintf("%+v", w) {
				t.Errorf("%q: line %d:\n got %+v\nwant %+v", body, i, g, w)
			}
		}
	}
}

// The file follows a rotation; one that cannot be opened is an error before anything listens.
func TestAccessLogRotation(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "access.log")
	s := start(t, perIP(), func(c *Config) { c.AccessLog.File = name })
	get(t, "http://"+s.addr+"/before")
	if err := os.Rename(name, name+".1"); err != nil {
		t.Fatal(err)
	}
	s.ReopenAccessLog()
	eventually(t, func() bool { _, err := os.Stat(name); return err == nil })
	get(t, "http://"+s.addr+"/after")
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if old, now := readAccessLog(t, name+".1"), readAccessLog(t, name); len(old) != 1 || old[0].Path != "/before" || len(now) != 1 || now[0].Path != "/after" {
		t.Errorf("%+v, then %+v", old, now)
	}
	c := newConfig(t, perIP())
	c.AccessLog.File = filepath.Dir(name)
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "AccessLog.File") || !strings.Contains(err.Error(), "cannot be opened: is a directory: name a file") {
		t.Error(err)
	}
}

// A batch has a line, and so has what is no HTTP.
func TestAccessLogOfOtherRequests(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "access.log")
	s := start(t, perIP(), func(c *Config) { c.AccessLog.File, c.DecideAPI = name, true })
	resp := send(t, "POST", "http://"+s.addr+"/v1/decide", `{"requests":[{"rule":"per-ip","key":["192.0.2.7"]}]}`, "Content-Type", "application/json")
	_, _ = io.Copy(io.Discard, resp.Body)
	raw(t, s.addr, "\x16\x03\x01\r\n\r\n")
	raw(t, s.addr, "GET /"+strings.Repeat("a", 40<<10)+" HTTP/1.1\r\nHost: a\r\n\r\n")
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	got := readAccessLog(t, name)
	if len(got) != 3 || got[0].Path != "/v1/decide" || got[0].Status != 200 || got[0].Decision != "" || got[0].Bytes == 0 ||
		got[1].Status != 400 || got[1].Reason != "malformed" || got[2].Status != 431 || got[2].Reason != "header_size" {
		t.Errorf("%+v", got)
	}
}
