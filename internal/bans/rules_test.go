package bans

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/policy"
)

// banning is a rule that bans at the second request of a client, for 30 s.
func banning(name string, parts ...policy.KeyKind) policy.RuleSpec {
	r := policy.RuleSpec{Limit: fastlimit.RuleConfig{
		Name: name, Rate: fastlimit.Rate{N: 1, Per: time.Hour}, Burst: 1, Strict: true, Ban: fastlimit.BanPolicy{After: 1, For: 30 * time.Second, Max: time.Minute},
	}}
	for _, k := range parts {
		r.Key = append(r.Key, policy.KeyPart{Kind: k})
	}
	return r
}

// flood has a client ask until it is banned.
func (w *world) flood(client, method, path string) {
	w.Helper()
	r := policy.Request{Client: netip.MustParseAddr(client), Method: []byte(method), Path: []byte(path)}
	for range 2 {
		w.engine.Load().Decide(w.Context(), &r, new(policy.Scratch))
	}
}

func TestBansOfRules(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shadow, wide := banning("shadow", policy.KeyIP), banning("wide", policy.KeyIP)
		shadow.Limit.Mode = fastlimit.Shadow
		shadow.Match.Methods, wide.Match.Methods = []string{"PUT"}, []string{"POST"}
		wide.Limit.IPv4Prefix = 24
		parts := banning("parts", policy.KeyMethod, policy.KeyPath)
		parts.Match.Methods = []string{"GET"}
		w := build(t, shadow, wide, parts)
		w.flood("10.0.0.1", "PUT", "/")
		time.Sleep(time.Second)
		w.flood("10.0.0.1", "POST", "/")
		w.flood("2001:db8::1", "POST", "/")
		time.Sleep(time.Second)
		w.flood("10.0.0.2", "GET", "/a b")
		w.ban("192.0.2.0/24", "10s")
		wants := func(when, rule string, limit, total int, want ...string) {
			t.Helper()
			if got, n := w.list(rule, limit); !slices.Equal(got, want) || n != total {
				t.Errorf("%s: %d %q, want %d %q", when, n, got, total, want)
			}
		}
		all := []string{
			"192.0.2.0/24  operator 10 1 false",
			`GET "/a b" parts rule 30 1 false`, "10.0.0.0/24 wide rule 29 1 false", "2001:db8::/64 wide rule 29 1 false", "10.0.0.1 shadow rule 28 1 true",
		}
		for limit := range 7 {
			wants("of all", "", limit, 5, all[:min(limit, 5)]...)
		}
		wants("of a rule", "wide", 9, 2, all[2:4]...)
		wants("some of a rule", "wide", 1, 2, all[2])
		if _, err := w.List("nope", 9); statusOf(err) != 404 || err.Error() != `no rule "nope"; this node has shadow, wide, parts` {
			t.Errorf("%v", err)
		}
		reply, _ := w.List("shadow", 9)
		if b, _ := json.Marshal(reply); string(b) != `{"bans":[{"key":"10.0.0.1","rule":"shadow","by":"rule","seconds_left":28,"times":1,"kernel":true,"shadow":true,"key_parts":["10.0.0.1"]}],"total":1}` {
			t.Errorf("%s", b)
		}
		unban := func(rule string, key []string, want string) {
			t.Helper()
			reply, err := w.Unban(rule, key, "me")
			b, _ := json.Marshal(reply)
			if got := strings.TrimSpace(fmt.Sprint(statusOf(err), " ", string(b))); err != nil {
				got = fmt.Sprint(statusOf(err), " ", err)
				if !strings.HasPrefix(got, want) {
					t.Errorf("%s %q: %s, want %s", rule, key, got, want)
				}
			} else if got != want {
				t.Errorf("%s %q: %s, want %s", rule, key, got, want)
			}
		}
		unban("nope", []string{"10.0.0.1"}, "404 no rule")
		unban("parts", []string{"GET"}, `422 key: rule "parts": key has 1 part; want 2`)
		unban("parts", []string{"GET", "/"}, "404 GET / is not banned by rule parts")
		unban("", []string{"GET", "/", "x"}, "422 key: a prefix is one key, not 3")
		unban("wide", []string{"192.0.2.0/24"}, "404 192.0.2.0/24 is not banned by rule wide")
		unban("parts", []string{"GET", "/a b"}, `200 {"unbanned":[{"key":"GET \"/a b\"","rule":"parts","by":"rule"}]}`)
		w.flood("10.0.0.2", "GET", "/a b")
		unban("", []string{`GET "/a b"`}, `200 {"unbanned":[{"key":"GET \"/a b\"","rule":"parts","by":"rule"}]}`)
		long := "/" + strings.Repeat("x", 99)
		w.flood("10.0.0.2", "GET", long)
		unban("", []string{"GET", long}, `200 {"unbanned":[{"key":"GET `+long[:26]+`…","rule":"parts","by":"rule"}]}`)
		w.flood("10.0.0.2", "GET", long)
		unban("", []string{"GET", long[:26]}, "404 GET "+long[:26]+" is not banned")
		unban("", []string{"GET " + long[:26] + "…"}, `200 {"unbanned":[{"key":"GET `+long[:26]+`…","rule":"parts","by":"rule"}]}`)
		unban("", []string{"10.0.0.1"}, `200 {"unbanned":[{"key":"10.0.0.1","rule":"shadow","by":"rule"},{"key":"10.0.0.0/24","rule":"wide","by":"rule"}]}`)
		unban("", []string{"10.0.0.1"}, "404 10.0.0.1 is not banned")
		if got := fmt.Sprint(w.unbanned); got != "[10.0.0.1/32 10.0.0.0/24]" {
			t.Errorf("the kernel forgets %s", got)
		}
		r := w.on.Load().limiter.Rules()[1]
		told := engine.Ban{Digest: r.AddrKey(netip.MustParseAddr("198.51.100.1")).Digest(), Name: "4\xc6\x33\x64\x00", Left: 45 * time.Second, Times: 3}
		if !(*engine.Rule)(r).BanFor(&told) {
			t.Error("a ban of another node has no room")
		}
		wants("told", "wide", 9, 2, "198.51.100.0/24 wide node 45 3 false", all[3])
		unban("", []string{"198.51.100.0/24"}, `200 {"unbanned":[{"key":"198.51.100.0/24","rule":"wide","by":"node"}]}`)
		// An operator's ban and a rule's of one prefix: one word ends both.
		w.ban("2001:db8::/64", "1h")
		unban("", []string{"2001:db8::/64"}, `200 {"unbanned":[{"key":"2001:db8::/64","rule":"","by":"operator"},{"key":"2001:db8::/64","rule":"wide","by":"rule"}]}`)
		wants("at last", "", 9, 1, all[0])
		for _, line := range []string{`msg="ban ended" by=me key=10.0.0.0/24 rule=wide`, `msg="ban ended" by=me key="GET \"/a b\"" rule=parts`} {
			if !strings.Contains(w.log.String(), line+"\n") {
				t.Errorf("not logged: %s in %s", line, w.log.String())
			}
		}
	})
}

// An unbanned client starts over: as many denials as for the first ban, and its length.
func TestUnbanForgets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := build(t, banning("ip", policy.KeyIP))
		for i, want := range []string{"30 1", "60 2", "60 3"} {
			w.flood("10.0.0.9", "GET", "/")
			if got, _ := w.list("", 9); len(got) != 1 || got[0] != "10.0.0.9 ip rule "+want+" false" {
				t.Errorf("ban %d: %q, want %s", i, got, want)
			}
			time.Sleep(time.Minute)
		}
		w.flood("10.0.0.9", "GET", "/")
		if _, err := w.Unban("ip", []string{"10.0.0.9"}, "me"); err != nil {
			t.Error(err)
		}
		w.flood("10.0.0.9", "GET", "/")
		if got, _ := w.list("", 9); len(got) != 1 || got[0] != "10.0.0.9 ip rule 30 1 false" {
			t.Errorf("after its end: %q", got)
		}
	})
}

// Of many bans the list has those that last longest, whatever order they come in.
func TestListOfMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rule := banning("ip", policy.KeyIP)
		w := build(t, rule)
		var want []string
		for i := range 300 {
			client := fmt.Sprintf("10.1.%d.%d", i/250, i%250)
			w.flood(client, "GET", "/")
			time.Sleep(20 * time.Millisecond)
			want = append(want, client)
		}
		slices.Reverse(want)
		got, n := w.list("ip", 40)
		if n != 300 || len(got) != 40 {
			t.Fatalf("%d of %d", len(got), n)
		}
		for i := range got {
			if !strings.HasPrefix(got[i], want[i]+" ") {
				t.Errorf("place %d: %s, want %s", i, got[i], want[i])
			}
		}
	})
}
