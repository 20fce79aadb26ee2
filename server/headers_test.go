package server

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket/memstore"
	"github.com/fastlimit/fastlimit/internal/field"
	"github.com/fastlimit/fastlimit/policy"
)

// told is a server whose listeners answer in these styles.
func told(t *testing.T, set policy.Settings, styles ...Listener) *running {
	return start(t, set, func(c *Config) {
		c.Listeners = styles
		for i := range c.Listeners {
			c.Listeners[i].Address = "127.0.0.1:0"
		}
	})
}

// dayTimes are times of about a day, in seconds or with three decimals.
var dayTimes = regexp.MustCompile(`\b86[34]\d\d(\.)?(?:\d{3})?\b`)

// both asks a listener over both ways, as a resident and by fasthttp, which a body
// needs. Date is left out.
func (s *running) both(t *testing.T, listener int) (answers [2]string) {
	t.Helper()
	for i, request := range []string{"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx"} {
		c := dial(t, s.Addrs()[listener].String())
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(c)
		c.Close()
		if err != nil {
			t.Fatal(err)
		}
		head, body, _ := strings.Cut(string(got), "\r\n\r\n")
		var lines []string
		for line := range strings.SplitSeq(head, "\r\n") {
			if name, _, _ := strings.Cut(line, ": "); name != "Date" && name != "Connection" {
				lines = append(lines, line)
			}
		}
		answers[i] = strings.Join(append(lines, body), "\n")
	}
	return answers
}

// Each listener answers in its own way, by the same buckets.
func TestListenersHaveTheirOwnHeaders(t *testing.T) {
	t.Parallel()
	set := perIP()
	set.Rules[0].Limit.Rate.Per = 24 * time.Hour
	set.Rules[0].Limit.Rate.N = 1
	set.Rules[0].Limit.Burst = 1
	day := Listener{HeadersOn: HeadersAlways}
	legacy, sharkey, textbook, draft, none := day, day, day, day, Listener{}
	legacy.Headers, sharkey.Headers = []HeaderSet{RateLimitLegacyHeaders}, []HeaderSet{XRateLimitHeaders}
	textbook.Headers, draft.Headers, none.Headers = []HeaderSet{XRateLimitLimitHeaders}, []HeaderSet{RateLimitHeaders}, []HeaderSet{NoHeaders}
	none.Denial = Denial{ContentType: "text/html", Body: "<p>Come back in {{retry_after}} seconds.\n"}
	s := told(t, set, legacy, sharkey, textbook, draft, none)
	get(t, "http://"+s.addr+"/") // the one request of the day
	problem := `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"detail":"The limit of 1/d with a burst of 1 is exceeded.","violated-policies":["per-ip"]}`
	head := "HTTP/1.1 429 Too Many Requests\nContent-Type: application/problem+json\nContent-Length: 201\nRETRY\n"
	for i, want := range []string{
		head + "RateLimit-Limit: 1\nRateLimit-Remaining: 0\nRateLimit-Reset: DAY\n" + problem,
		strings.Replace(head, "RETRY", "Retry-After: DAY\nX-RateLimit-Reset: DAY.\nCache-Control: no-store", 1) + "X-RateLimit-Remaining: 0\nX-RateLimit-Clear: DAY.\n" + problem,
		head + "X-RateLimit-Limit: 1\nX-RateLimit-Remaining: 0\nX-RateLimit-Retry-After: DAY\n" + problem,
		"HTTP/1.1 429 Too Many Requests\nContent-Type: application/problem+json\nContent-Length: 201\nRateLimit-Policy: \"per-ip\";q=1;w=DAY\nRETRY\nRateLimit: \"per-ip\";r=0;t=DAY\n" + problem,
		"HTTP/1.1 429 Too Many Requests\nContent-Type: text/html\nContent-Length: 31\nRETRY\n<p>Come back in DAY seconds.\n",
	} {
		want = strings.Replace(want, "RETRY", "Retry-After: DAY\nCache-Control: no-store", 1)
		for way, got := range s.both(t, i) {
			if got = dayTimes.ReplaceAllString(got, "DAY$1"); got != want {
				t.Errorf("listener %d, way %d:\n got %q\nwant %q", i, way, got, want)
			}
		}
	}
}

// On admissions everybody is shown what is sure: the whole burst while only filter and
// sketch know the client, what the exact bucket has left once it is asked.
func TestHeadersOnAdmissions(t *testing.T) {
	t.Parallel()
	set := perIP()
	limit := &set.Rules[0].Limit
	limit.Rate, limit.Burst, limit.Strict, limit.EscalateAt = fastlimit.Rate{N: 1, Per: time.Hour}, 20, false, new(0.5)
	s := told(t, set, Listener{HeadersOn: HeadersAlways}, Listener{})
	left := int64(20)
	for i := range 40 {
		resp := get(t, "http://"+s.addr+"/")
		if resp.StatusCode == 429 {
			if i < 20 || left != 0 {
				t.Fatalf("request %d denied, %d were left", i, left)
			}
			return
		}
		h := resp.Header
		now, err := strconv.ParseInt(h.Get("X-RateLimit-Remaining"), 10, 64)
		if err != nil || h.Get("RateLimit") != fmt.Sprintf(`"per-ip";r=%d`, now) || h.Get("RateLimit-Policy") != `"per-ip";q=20;w=72000` || h.Get("Retry-After") != "" || h.Get("X-RateLimit-Reset") != "" {
			t.Fatalf("request %d: %v", i, h)
		}
		if exact := i >= 10; now != left && !exact || now > left || now < left-1 || (h.Get("X-RateLimit-Clear") == "0.000") != (now == 20) {
			t.Fatalf("request %d: %v after %d", i, h, left)
		}
		left = now
	}
	t.Error("never denied")
}

// Of several rules the tightest is shown: who goes by the numbers of another would run
// into it. Rules in shadow mode deny nobody, and are not shown.
func TestTheTightestRuleIsShown(t *testing.T) {
	t.Parallel()
	set := policy.Settings{}
	for _, r := range []fastlimit.RuleConfig{
		{Name: "wide", Burst: 100}, {Name: "shadow", Burst: 1, Mode: fastlimit.Shadow}, {Name: "costly", Burst: 30, Cost: 10}, {Name: "narrow", Burst: 5},
	} {
		r.Rate, r.Strict = fastlimit.Rate{N: 1, Per: time.Hour}, true
		key := []policy.KeyPart{{Kind: policy.KeyIP}}
		if r.Name == "narrow" {
			key = []policy.KeyPart{{Kind: policy.KeyHeader, Name: "X-Api-Key"}}
		}
		set.Rules = append(set.Rules, policy.RuleSpec{Limit: r, Key: key})
	}
	set.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.9/32")}
	s := told(t, set, Listener{HeadersOn: HeadersAlways})
	for i, want := range []string{`"costly";r=20`, `"costly";r=10`, `"costly";r=0`} {
		if got := get(t, "http://"+s.addr+"/").Header.Get("RateLimit"); got != want {
			t.Errorf("request %d: %s, want %s", i, got, want)
		}
	}
	costly, _ := s.config().Limiter.Rule("costly")
	costly.Reset(costly.AddrKey(netip.MustParseAddr("127.0.0.1")))
	// "narrow" has five requests left after the first, "costly" two.
	for i, want := range []string{`"costly";r=20`, `"costly";r=10`} {
		if got := get(t, "http://"+s.addr+"/", "X-Api-Key", "k").Header.Get("RateLimit"); got != want {
			t.Errorf("request %d with a key: %s, want %s", i, got, want)
		}
	}
	costly.Reset(costly.AddrKey(netip.MustParseAddr("127.0.0.1")))
	get(t, "http://"+s.addr+"/", "X-Api-Key", "k")
	costly.Reset(costly.AddrKey(netip.MustParseAddr("127.0.0.1")))
	if got := get(t, "http://"+s.addr+"/", "X-Api-Key", "k").Header.Get("RateLimit"); got != `"narrow";r=1` {
		t.Errorf("the narrow one: %s", got)
	}
	c := dialFrom(t, "127.0.0.9", s.addr) // on the list of those who are never limited
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if got, err := io.ReadAll(c); err != nil || strings.Contains(string(got), "RateLimit") || !strings.HasPrefix(string(got), "HTTP/1.1 200 ") {
		t.Errorf("%q, %v", got, err)
	}
}

// With a shared store, which other nodes charge too, only a request that it was asked about
// has a remainder; and of several rules none has, if not all are known.
func TestHeadersWithASharedStore(t *testing.T) {
	t.Parallel()
	set := perIP()
	limit := &set.Rules[0].Limit
	limit.Rate, limit.Burst, limit.Strict, limit.EscalateAt = fastlimit.Rate{N: 1, Per: time.Hour}, 20, false, new(0.5)
	strict := set.Rules[0]
	strict.Limit.Name, strict.Limit.Burst, strict.Limit.Strict, strict.Limit.EscalateAt = "strict", 100, true, nil
	strict.Key = []policy.KeyPart{{Kind: policy.KeyHeader, Name: "X-Api-Key"}}
	set.Rules = append(set.Rules, strict)
	s := start(t, set, func(c *Config) {
		store := memstore.New(memstore.Config{})
		t.Cleanup(func() { _ = store.Close(context.Background()) })
		var err error
		if c.Limiter, err = fastlimit.New(fastlimit.Config{Rules: set.Limits(), Memory: 4 << 20, Store: store, StoreTimeout: time.Second}); err != nil {
			t.Fatal(err)
		}
		if c.Engine, err = policy.New(c.Limiter, set); err != nil {
			t.Fatal(err)
		}
		c.Listeners[0].HeadersOn = HeadersAlways
		c.Listeners[0].Headers = []HeaderSet{RateLimitHeaders, RateLimitLegacyHeaders, XRateLimitHeaders, XRateLimitLimitHeaders}
	})
	fields := func(headers ...string) (names []string) {
		for name := range get(t, "http://"+s.addr+"/", headers...).Header {
			if strings.Contains(name, "Ratelimit") {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	}
	unknown := []string{"Ratelimit-Policy", "X-Ratelimit-Limit"}
	for i := range 5 { // by filter and sketch
		if got := fields(); !slices.Equal(got, unknown) {
			t.Errorf("request %d: %v", i, got)
		}
	}
	if got := fields("X-Api-Key", "k"); !slices.Equal(got, unknown) { // the strict rule asks the store, the other one does not
		t.Errorf("with a key: %v", got)
	}
	known := 0
	for range 10 {
		if got := fields(); len(got) == 8 && slices.Contains(got, "X-Ratelimit-Remaining") {
			known++
		}
	}
	if known == 0 {
		t.Error("the store was asked, and nothing of it is shown")
	}
}

func TestListenerMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		l    Listener
		want string
	}{
		{Listener{Headers: []HeaderSet{RateLimitHeaders, NoHeaders}}, "Headers[1]: none is listed with others: write none alone, or remove it"},
		{Listener{Headers: []HeaderSet{XRateLimitHeaders, XRateLimitHeaders}}, "Headers[1]: x-ratelimit is listed twice: remove it"},
		{Listener{Headers: []HeaderSet{9}}, "Headers[0]: header set 9 is unknown: want ratelimit,"},
		{Listener{HeadersOn: 2}, "HeadersOn: headers on 2 is unknown: want denials or always"},
		{Listener{HeadersOn: HeadersAlways, Headers: []HeaderSet{NoHeaders}}, "HeadersOn: always has no effect"},
		{Listener{Denial: Denial{Body: "busy"}}, "Denial.ContentType: is missing: want a media type"},
		{Listener{Denial: Denial{ContentType: "text/html", Body: "{{x}}"}}, `Denial.Body: at 1:1: "{{x}}" is not a placeholder`},
		{Listener{Denial: Denial{ContentType: "text/html", Body: strings.Repeat("x", 1<<20)}}, "Denial.Body: has 1048576 bytes: want at most 16384"},
	} {
		config := newConfig(t, perIP())
		c.l.Address = "127.0.0.1:0"
		config.Listeners = append(config.Listeners, c.l)
		_, err := New(config)
		if all := field.All(err); len(all) != 1 || !strings.HasPrefix(err.Error(), "fastlimit/server: Listeners[1]."+c.want) {
			t.Errorf("%+v:\ngot  %v\nwant %s", c.l, err, c.want)
		}
	}
}
