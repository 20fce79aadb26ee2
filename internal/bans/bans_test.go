package bans

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

// world is a node whose bans decide about clients.
type world struct {
	*testing.T
	*Set
	engine   atomic.Pointer[policy.Engine]
	swaps    int // guarded by the set
	mu       sync.Mutex
	unbanned []netip.Prefix // that the kernel forgets; guarded by mu
	log      strings.Builder
}

// SetBans implements [Node].
func (w *world) SetBans(b *policy.Bans) {
	w.swaps++
	w.engine.Store(w.engine.Load().WithBans(b))
}

// Lists implements [Node].
func (w *world) Lists() *policy.Lists { return w.engine.Load().Lists() }

// KernelForgets implements [Node].
func (w *world) KernelForgets(p netip.Prefix) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unbanned = append(w.unbanned, p)
}

// Protects implements [Node].
func (w *world) Protects(p netip.Prefix) string {
	if p.Contains(netip.MustParseAddr("10.9.9.9")) {
		return "has the address of a trusted proxy"
	}
	return ""
}

// KernelHolds implements [Node].
func (w *world) KernelHolds(a netip.Addr) bool { return a == netip.MustParseAddr("10.0.0.1") }

// build makes a node, with two rules that ban nobody if there are none.
func build(t *testing.T, rules ...policy.RuleSpec) *world {
	t.Helper()
	hour := fastlimit.Rate{N: 2, Per: time.Hour}
	set := policy.Settings{
		Rules: []policy.RuleSpec{
			{Limit: fastlimit.RuleConfig{Name: "ip", Rate: hour}, Key: []policy.KeyPart{{Kind: policy.KeyIP}}},
			{Limit: fastlimit.RuleConfig{Name: "m", Rate: hour}, Key: []policy.KeyPart{{Kind: policy.KeyMethod}, {Kind: policy.KeyPath}}},
		},
		Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.7/32"), netip.MustParsePrefix("192.0.2.64/26"), netip.MustParsePrefix("172.16.0.0/12")},
	}
	if len(rules) > 0 {
		set.Rules = rules
	}
	for i := range maxAllowed + 5 {
		set.Allow = append(set.Allow, netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}), 32))
	}
	lim, err := fastlimit.New(fastlimit.Config{Rules: set.Limits(), Memory: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	e, err := policy.New(lim, set)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t}
	w.engine.Store(e)
	w.Set = New(Config{Limiter: lim, Engine: e, Log: slog.New(slog.NewTextHandler(&w.log, nil))})
	w.Start(w)
	return w
}

func statusOf(err error) int {
	if r, ok := err.(interface{ HTTPStatus() int }); ok {
		return r.HTTPStatus()
	}
	return 200
}

// ban bans with a body, which must succeed.
func (w *world) ban(key, life string) Done {
	w.Helper()
	reply, err := w.Ban(fmt.Appendf(nil, `{"key":%q,"for":%q}`, key, life), "me")
	if err != nil {
		w.Fatal(err)
	}
	return reply.(Done)
}

// list is what is banned, one text for each.
func (w *world) list(rule string, limit int) (all []string, total int) {
	w.Helper()
	reply, err := w.List(rule, limit)
	if err != nil {
		w.Fatal(err)
	}
	l := reply.(List)
	for _, b := range l.Bans {
		all = append(all, fmt.Sprintf("%s %s %s %v %d %v", b.Key, b.Rule, b.By, b.SecondsLeft, b.Times, b.Kernel))
	}
	return all, l.Total
}

// banned is for how long a client is banned.
func (w *world) banned(client string) time.Duration {
	var s policy.Scratch
	r := policy.Request{Client: netip.MustParseAddr(client), Method: []byte("GET"), Path: []byte("/")}
	if v := w.engine.Load().Decide(w.Context(), &r, &s); v.List == policy.ListBan {
		return v.Decision.RetryAfter
	}
	return 0
}

func TestBanListUnban(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := build(t)
		w.ban("192.0.2.0/24", "1h")
		w.ban("10.0.0.1", "90s")
		w.ban("2001:db8::/48", "2h")
		wants := func(when string, limit, total int, want ...string) {
			t.Helper()
			if got, n := w.list("", limit); !slices.Equal(got, want) || n != total {
				t.Errorf("%s: %d %q, want %d %q", when, n, got, total, want)
			}
		}
		wants("at first", 9, 3, "2001:db8::/48  operator 7200 1 false", "192.0.2.0/24  operator 3600 1 false", "10.0.0.1  operator 90 1 true")
		wants("of three", 1, 3, "2001:db8::/48  operator 7200 1 false")
		time.Sleep(30 * time.Second)
		w.ban("192.0.2.0/24", "1m") // shorter: what was said last holds
		w.ban("2001:db8::/48", "2h")
		if got := fmt.Sprint(w.unbanned); got != "[192.0.2.0/24]" {
			t.Errorf("the kernel forgets %s", got)
		}
		wants("set again", 9, 3, "2001:db8::/48  operator 7200 2 false", "10.0.0.1  operator 60 1 true", "192.0.2.0/24  operator 60 2 false")
		for client, want := range map[string]time.Duration{"192.0.2.1": time.Minute, "192.0.2.7": 0, "10.0.0.1": time.Minute, "10.0.0.2": 0, "2001:db8::1": 2 * time.Hour} {
			if got := w.banned(client); got != want {
				t.Errorf("%s is banned for %v, want %v", client, got, want)
			}
		}
		// Nothing runs when they end, and no request sees them after that.
		before := w.swaps
		time.Sleep(time.Minute)
		if w.banned("192.0.2.1") != 0 || w.banned("10.0.0.1") != 0 || w.banned("2001:db8::1") == 0 || w.swaps != before {
			t.Errorf("after their end: %v %v %v, %d swaps more", w.banned("192.0.2.1"), w.banned("10.0.0.1"), w.banned("2001:db8::1"), w.swaps-before)
		}
		wants("after their end", 9, 1, "2001:db8::/48  operator 7140 2 false")
		if st := w.Stats(); st.ByOperators != 1 {
			t.Errorf("%+v", st)
		}
		if _, err := w.Unban("", []string{"192.0.2.0/24"}, "me"); statusOf(err) != 404 {
			t.Errorf("what has ended was ended: %v", err)
		}
		reply, err := w.Unban("", []string{"2001:db8::/48"}, "me")
		if b, _ := json.Marshal(reply); err != nil || string(b) != `{"unbanned":[{"key":"2001:db8::/48","rule":"","by":"operator"}]}` {
			t.Errorf("%s %v", b, err)
		}
		wants("at last", 9, 0)
		if w.banned("2001:db8::1") != 0 || w.engine.Load().Bans() != nil || fmt.Sprint(w.unbanned) != "[192.0.2.0/24 2001:db8::/48]" {
			t.Errorf("%v %v %v", w.banned("2001:db8::1"), w.engine.Load().Bans(), w.unbanned)
		}
		w.ban("192.0.2.0/24", "1h")
		wants("banned anew", 9, 1, "192.0.2.0/24  operator 3600 1 false")
	})
}

// An answer also reports the allow list, which stays in force.
func TestAnswersNameWhoStaysAllowed(t *testing.T) {
	t.Parallel()
	w := build(t)
	for key, want := range map[string]string{
		"192.0.2.0/24":    "[192.0.2.7/32 192.0.2.64/26] 2",
		"192.0.2.128/25":  "[] 0",
		"172.16.0.0/12":   "[] 0", // of equal ones the ban decides
		"172.16.5.0/24":   "[] 0",
		"198.51.100.0/24": "25",
	} {
		d := w.ban(key, "1h")
		got := fmt.Sprint(d.Allowed, " ", d.AllowedEntries)
		if key == "198.51.100.0/24" {
			got = fmt.Sprint(d.AllowedEntries)
			if len(d.Allowed) != maxAllowed {
				t.Errorf("%d are named", len(d.Allowed))
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
	if w.banned("172.16.5.1") == 0 || w.banned("172.17.0.1") == 0 || w.banned("192.0.2.7") != 0 {
		t.Error("the longest prefix does not decide")
	}
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	w := build(t)
	w.ban("10.1.0.0/16", "1h")
	logged := w.log.String()
	long := `{"key":"` + strings.Repeat("1", 5000) + `"}`
	for body, want := range map[string]string{
		`{"key":"10.0.0.1/24"}`:               "422 key: 10.0.0.1/24 has bits set beyond its length; write 10.0.0.0/24, or 10.0.0.1 for the address alone",
		`{"key":"0.0.0.0/0"}`:                 "422 key: 0.0.0.0/0 is shorter than a /8",
		`{"key":"::/0"}`:                      "422 key: ::/0 is shorter than a /16",
		`{"key":"\u001b[2J\n"}`:               `422 key: "\x1b[2J\n" is neither an address nor a prefix`,
		`{"key":"example.com"}`:               "422 key: \"example.com\" is neither",
		`{}`:                                  "422 key: \"\" is neither",
		`{"key":"10.0.0.1","for":"1ms"}`:      "400 for: 1ms is out of range; want 1s to 8784h0m0s",
		`{"key":"10.0.0.1","for":"8785h"}`:    "400 for: 8785h0m0s is out of range",
		`{"key":"10.0.0.1","for":"-1h"}`:      "400 for: -1h0m0s is out of range",
		`{"key":"10.0.0.1","for":3600}`:       "400 the body is not a ban: for: 3600 is not a time",
		`{"key":"10.0.0.1","for":"for ever"}`: `400 the body is not a ban: for: "for ever" is not a time`,
		`{"key":["10.0.0.1"]}`:                "400 the body is not a ban: key: want a text, not array; send for example {",
		`{"key":"10.0.0.1","Key":"10.0.0.2"}`: "400 the body is not a ban",
		`{"key":"10.0.0.1","key":"10.0.0.2"}`: "400 the body is not a ban",
		`{"key":"10.9.0.0/16"}`:               `409 10.9.0.0/16 has the address of a trusted proxy: to do it anyway, send "force":true (fastlimit ban --force)`,
		`{"key":"10.9.9.9","force":false}`:    "409 10.9.9.9 has",
		`{"key":"10.9.9.9","force":1}`:        "400 the body is not a ban: force: want true or false, not number",
		`{"key":"10.0.0.1","reason":5}`:       "400 the body is not a ban: reason: want a text, not number",
		`{"key":"10.0.0.1","reason":"` + strings.Repeat("x", maxReason+1) + `"}`: "400 reason: 201 bytes; want at most 200",
		`{"key":"10.0.0.1","rule":"ip"}`:                                         "400 the body is not a ban",
		`{"key":"10.0.0.1"} {}`:                                                  "400 the body is not a ban",
		`[]`:                                                                     "400 the body is not a ban: want an object, not array",
		``:                                                                       "400 the body is not a ban",
		"\xff":                                                                   "400 the body is not a ban",
		long:                                                                     "422 key: ",
	} {
		_, err := w.Ban([]byte(body), "me")
		if got := fmt.Sprint(statusOf(err), " ", err); !strings.HasPrefix(got, want) || len(got) > 400 {
			t.Errorf("%.80s: %s, want %s", body, got, want)
		}
	}
	for _, c := range []struct {
		rule string
		key  []string
		want string
	}{
		{"", []string{"10.0.0.1"}, "404 10.0.0.1 is not banned"},
		{"", []string{"10.1.2.3"}, "404 10.1.2.3 is not banned; 10.1.0.0/16, which contains it, is: unban that"},
		{"", []string{"10.0.0.0/8"}, "404 10.0.0.0/8 is not banned"},
		{"", []string{"10.1.2.3/16"}, "422 key: 10.1.2.3/16 has bits set beyond its length; write 10.1.0.0/16"},
		{"", []string{"\x1b[2J"}, `422 key: "\x1b[2J" is neither`},
	} {
		_, err := w.Unban(c.rule, c.key, "me")
		if got := fmt.Sprint(statusOf(err), " ", err); !strings.HasPrefix(got, c.want) || len(got) > 400 {
			t.Errorf("%s %q: %s, want %s", c.rule, c.key, got, c.want)
		}
	}
	if all, _ := w.list("", 9); len(all) != 1 || w.log.String() != logged || w.unbanned != nil {
		t.Errorf("a refused change has changed something: %q, %v, %s", all, w.unbanned, w.log.String())
	}
}

// TestForcedAndReasoned: what is meant can be done, and others see why.
func TestForcedAndReasoned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := build(t)
		for _, body := range []string{`{"key":"10.9.9.9","force":true,"reason":"a drill\n"}`, `{"key":"10.9.9.9","force":true}`, `{"key":"2001:db8::7","reason":"scraper"}`} {
			if _, err := w.Ban([]byte(body), "me"); err != nil {
				t.Fatal(err)
			}
		}
		reply, err := w.List("", 9)
		if err != nil {
			t.Fatal(err)
		}
		l := reply.(List)
		if len(l.Bans) != 2 || l.Bans[0].Reason+l.Bans[1].Reason != "a drill\nscraper" {
			t.Errorf("%+v", l.Bans)
		}
		if log := w.log.String(); strings.Count(log, "reason=") != 2 || !strings.Contains(log, `reason="a drill\\n"`) {
			t.Errorf("%s", log)
		}
		next := build(t)
		next.Restore(w.Save(), 0)
		again, _ := next.List("", 9)
		if fmt.Sprint(again) != fmt.Sprint(reply) {
			t.Errorf("after a restart %v, before %v", again, reply)
		}
		for key, want := range map[string]string{
			"2001:db8::7": "most clients have a whole /64 and can choose any address in it: 2001:db8::/64 bans all of it", "2001:db8:0:1::/112": "2001:db8:0:1::/64 bans",
			"2001:db8:0:2::/64": "", "2001:db8:1::/48": "", "192.0.2.7": "",
		} {
			if hint := w.ban(key, "1h").Hint; !strings.Contains(hint, want) || (hint == "") != (want == "") {
				t.Errorf("%s: %q", key, hint)
			}
		}
	})
}

// Each change is logged with who, what and until when.
func TestChangesAreLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := build(t)
		if _, err := w.Ban([]byte(`{"key":"192.0.2.0/24","for":"90m"}`), "127.0.0.9"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Unban("", []string{"192.0.2.0/24"}, "127.0.0.8"); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("msg=\"ban set\" by=127.0.0.9 key=192.0.2.0/24 for=1h30m0s until=%s\n", time.Now().Add(90*time.Minute).UTC().Format("2006-01-02T15:04:05.000Z"))
		if log := w.log.String(); !strings.Contains(log, want) || !strings.Contains(log, "msg=\"ban ended\" by=127.0.0.8 key=192.0.2.0/24 rule=\"\"\n") {
			t.Errorf("%s, want %s", log, want)
		}
	})
}

// There are at most so many, of which one may still be set again. What has ended makes room.
func TestMostBans(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := build(t)
		key := func(i int) string { return fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255) }
		for i := range maxPrefixes {
			life := "1h"
			if i == 77 {
				life = "1m"
			}
			w.ban(key(i), life)
		}
		_, err := w.Ban([]byte(`{"key":"11.0.0.0/8"}`), "me")
		if statusOf(err) != 422 || !strings.Contains(err.Error(), "10000 prefixes are banned, which is the most") {
			t.Errorf("one more: %v", err)
		}
		if w.banned("11.0.0.1") != 0 {
			t.Error("a ban that was refused holds")
		}
		w.ban(key(5), "2h")
		time.Sleep(time.Minute)
		w.ban("11.0.0.0/8", "1h")
		if all, n := w.list("", maxPrefixes); n != maxPrefixes || len(all) != maxPrefixes || !strings.HasPrefix(all[0], key(5)+" ") || w.banned(key(77)) != 0 || w.banned(key(78)) == 0 {
			t.Errorf("%d of %d, first %s", len(all), n, all[0])
		}
		if n := w.engine.Load().Bans().Len(); n != maxPrefixes {
			t.Errorf("requests are decided by %d", n)
		}
	})
}

// Concurrent changes and lists, under -race: the final state is the one last requested.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	w := build(t)
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			for i := range 200 {
				key := fmt.Sprintf("10.%d.0.%d", n, i%8)
				if _, err := w.Ban(fmt.Appendf(nil, `{"key":%q}`, key), "me"); err != nil {
					t.Error(err)
				}
				if w.banned(key) == 0 {
					t.Errorf("%s is not banned right after", key)
				}
				if i%3 == 0 {
					if _, err := w.Unban("", []string{key}, "me"); err != nil {
						t.Error(err)
					}
					if w.banned(key) != 0 {
						t.Errorf("%s is banned after its end", key)
					}
				}
				_, _ = w.List("", 10)
				w.Stats()
			}
		})
	}
	all.Wait()
	list, n := w.list("", 100)
	if b := w.engine.Load().Bans(); b.Len() != n || len(list) != n || w.Stats().ByOperators != n {
		t.Errorf("%d are listed, %d decide, %+v", n, b.Len(), w.Stats())
	}
}
