package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

var keyIP = []policy.KeyPart{{Kind: policy.KeyIP}}

// run judges one log.
func run(ctx context.Context, log io.Reader, c Config) (*Report, error) {
	return Run(ctx, []Log{{Reader: log}}, c)
}

func rule(name, rate string, burst uint64, key ...policy.KeyPart) policy.RuleSpec {
	r, err := fastlimit.ParseRate(rate)
	if err != nil {
		panic(err)
	}
	if key == nil {
		key = keyIP
	}
	return policy.RuleSpec{Limit: fastlimit.RuleConfig{Name: name, Rate: r, Burst: burst}, Key: key}
}

func config(s policy.Settings) Config {
	return Config{Limiter: fastlimit.Config{Rules: s.Limits(), Memory: 4 << 20}, Policy: s}
}

func mustRun(t *testing.T, log string, c Config) *Report {
	t.Helper()
	r, err := run(t.Context(), strings.NewReader(log), c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests != r.Allowed+r.Denied || r.FalseDenials != 0 {
		t.Errorf("%d requests, %d allowed, %d denied, %d false denials", r.Requests, r.Allowed, r.Denied, r.FalseDenials)
	}
	return r
}

// outside is a view of the log that shares nothing with the package: what one
// exact bucket for each client makes of it, in thousandths of a unit.
type outside struct {
	level, at        int64
	requests, denied int
}

func exactly(hits []hit, perMinute, burst int64) map[string]*outside {
	sorted := slices.Clone(hits)
	slices.SortStableFunc(sorted, func(a, b hit) int { return cmp.Compare(a.at, b.at) })
	clients := map[string]*outside{}
	for _, h := range sorted {
		name := h.client.String()
		if h.client.Is6() {
			p, _ := h.client.Prefix(64)
			name = p.String()
		}
		o := clients[name]
		if o == nil {
			o = &outside{at: h.at}
			clients[name] = o
		}
		o.level = max(0, o.level-(h.at-o.at)*perMinute) // of 60 to a unit
		o.at = h.at
		o.requests++
		if o.level+60 > 60*burst {
			o.denied++
			continue
		}
		o.level += 60
	}
	return clients
}

func TestAgainstExactBuckets(t *testing.T) {
	t.Parallel()
	const n = 100_000
	hits := generate(n, 90)
	log := logOf(hits)
	c := config(policy.Settings{Rules: []policy.RuleSpec{rule("per-ip", "10/m", 20)}})
	r := mustRun(t, log, c)
	if r.Requests != n || r.Skipped != 0 || r.Late != 0 {
		t.Fatalf("%d requests, %d skipped, %d late", r.Requests, r.Skipped, r.Late)
	}
	want := exactly(hits, 10, 20)
	exactDenied := 0
	for _, o := range want {
		exactDenied += o.denied
	}
	rr := r.Rules[0]
	if rr.ExactDenied != exactDenied {
		t.Errorf("the oracle denies %d, exact buckets %d", rr.ExactDenied, exactDenied)
	}
	// P2 with θ = 0.5: up to 10 above the burst, and the first-seen one.
	if bound := 0.5*20 + 1; rr.Excess > bound+1e-3 || rr.Excess < bound/2 || rr.ExcessBound < bound {
		t.Errorf("excess %v, bound %v; want at most %v, and at least half of it in such a log", rr.Excess, rr.ExcessBound, bound)
	}
	denied := 0
	for _, c := range r.Clients {
		o := want[c.Key]
		switch {
		case o == nil:
			t.Fatalf("client %v is not in the log", c.Key)
		case o.denied == 0:
			t.Errorf("client %v was within its limit and denied %d times", c.Key, c.Denied)
		case c.Requests != o.requests || c.ExactDenied != o.denied || !c.OverLimit || c.Denied == 0:
			t.Errorf("%+v, want %+v", c, *o)
		}
		denied += c.Denied
	}
	if denied != r.Denied || len(r.Clients) < 20 {
		t.Errorf("%d clients with %d denials, report says %d", len(r.Clients), denied, r.Denied)
	}

	t.Run("a stream gives the same", func(t *testing.T) {
		c := c
		c.Stream = true
		if a, b := toJSON(t, r), toJSON(t, mustRun(t, log, c)); a != b {
			t.Errorf("file   %s\nstream %s", a, b)
		}
	})
	t.Run("strict is exact", func(t *testing.T) {
		c := c
		c.Limiter.Rules = slices.Clone(c.Limiter.Rules)
		c.Limiter.Rules[0].Strict = true
		r := mustRun(t, log, c)
		if r.Denied != exactDenied || r.Rules[0].Excess > 1e-3 {
			t.Errorf("denied %d, exact buckets %d; excess %v", r.Denied, exactDenied, r.Rules[0].Excess)
		}
	})
}

func toJSON(t *testing.T, r *Report) string {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func repeat(n int, line string) string { return strings.Repeat(line+"\n", n) }

func TestJSON(t *testing.T) {
	t.Parallel()
	at := stamp + ` "GET /a/../b?c HTTP/1.1" 200 1 "-" "curl"`
	log := repeat(6, "2001:db8:0:1::5 - - "+at) + repeat(4, "192.0.2.7 - - "+at) + "junk \x1b[31m\n" + repeat(1, "192.0.2.8 - - "+at)
	strict := func(r policy.RuleSpec) policy.RuleSpec {
		r.Limit.Strict = true
		return r
	}
	perPath := strict(rule("per-path", "1/h", 2, keyIP[0], policy.KeyPart{Kind: policy.KeyPath}))
	for _, tt := range []struct {
		name string
		rule policy.RuleSpec
		want string
	}{
		{
			"single key", strict(rule("per-ip", "1/h", 2)),
			`{"requests":11,"skipped":1,"allowed":5,"denied":6,"clients":[` +
				`{"rule":"per-ip","key":"2001:db8:0:1::/64","requests":6,"denied":4,"over_limit":true,"exact_denied":4,"key_parts":["2001:db8:0:1::/64"]},` +
				`{"rule":"per-ip","key":"192.0.2.7","requests":4,"denied":2,"over_limit":true,"exact_denied":2,"key_parts":["192.0.2.7"]}],`,
		}, {
			"composite key", perPath,
			`{"requests":11,"skipped":1,"allowed":5,"denied":6,"clients":[` +
				`{"rule":"per-path","key":"2001:db8:0:1::/64 /b","requests":6,"denied":4,"over_limit":true,"exact_denied":4,"key_parts":["2001:db8:0:1::/64","/b"]},` +
				`{"rule":"per-path","key":"192.0.2.7 /b","requests":4,"denied":2,"over_limit":true,"exact_denied":2,"key_parts":["192.0.2.7","/b"]}],`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := mustRun(t, log, config(policy.Settings{Rules: []policy.RuleSpec{tt.rule}}))
			got := toJSON(t, r)
			if !strings.HasPrefix(got, tt.want) {
				t.Errorf("got  %s\nwant %s…", got, tt.want)
			}
			if skipped := `"skipped_lines":[{"line":11,"reason":"does not start with a client address","text":"\"junk \\x1b[31m\""}]`; !strings.Contains(got, skipped) {
				t.Errorf("got  %s\nwant %s", got, skipped)
			}
		})
	}
}

// A file that names a Redis is replayed as any other: by the time of the log.
func TestRedisIsNotAsked(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	for i := range 59 { // at the rate, then three at once
		fmt.Fprintf(&log, "192.0.2.7 - - [10/Oct/2025:13:%02d:00 +0000] \"GET / HTTP/1.1\" 200 1\n", i)
	}
	for range 3 {
		log.WriteString("192.0.2.7 - - [10/Oct/2025:13:59:00 +0000] \"GET / HTTP/1.1\" 200 1\n")
	}
	strict := rule("a", "1/m", 2)
	strict.Limit.Strict = true
	c := config(policy.Settings{Rules: []policy.RuleSpec{strict}})
	c.Limiter.Shared, c.Limiter.StoreTimeout = true, time.Second
	if r := mustRun(t, log.String(), c); r.Denied != 1 {
		t.Errorf("%d denied, want the last one", r.Denied)
	}
}

func TestEmptyLog(t *testing.T) {
	t.Parallel()
	for _, log := range []string{"", string(zip(t))} {
		r := mustRun(t, log, config(policy.Settings{Rules: []policy.RuleSpec{rule("per-ip", "1/s", 2)}}))
		want := `{"requests":0,"skipped":0,"allowed":0,"denied":0,"clients":[],"late":0,"false_denials":0,"rules":[`
		if got := toJSON(t, r); !strings.HasPrefix(got, want) {
			t.Errorf("got %s", got)
		}
		var text strings.Builder
		if err := r.WriteText(&text, 20); err != nil || !strings.Contains(text.String(), "requests") {
			t.Errorf("text %q, %v", text.String(), err)
		}
	}
}

func TestSkippedLinesAreFew(t *testing.T) {
	t.Parallel()
	log := repeat(100, strings.Repeat("é", 500)) + strings.Repeat("x", 2*maxLine) + "\n" + logOf(generate(1, 0))
	r := mustRun(t, log, config(policy.Settings{Rules: []policy.RuleSpec{rule("per-ip", "1/s", 2)}}))
	if r.Skipped != 101 || len(r.SkippedLines) != showSkipped {
		t.Errorf("%d skipped, %d shown", r.Skipped, len(r.SkippedLines))
	}
	for i, s := range r.SkippedLines {
		if s.Line != i+1 || len(s.Text) > 8*showSkippedText || !strings.HasSuffix(s.Text, "…") {
			t.Errorf("shown: %+v", s)
		}
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	c := config(policy.Settings{Rules: []policy.RuleSpec{rule("per-ip", "1/s", 2)}})
	ctx, cancel := context.WithCancel(t.Context())
	c.Judged = func(int, int) { cancel() }
	log := repeat(3*checkEvery, "192.0.2.7 - - "+stamp+` "GET / HTTP/1.1" 200 1`)
	if _, err := run(ctx, strings.NewReader(log), c); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled while judging: %v", err)
	}
	if _, err := run(ctx, strings.NewReader(log), c); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled while reading: %v", err)
	}
}

// Lines centuries apart are shortened to what rules can tell; nobody is judged
// by an overflow.
func TestLongSilence(t *testing.T) {
	t.Parallel()
	line := func(year string) string {
		return repeat(3, `192.0.2.7 - - [17/May/`+year+`:10:05:03 +0000] "GET / HTTP/1.1" 200 1`)
	}
	log := line("0001") + line("1970") + line("2026") + line("9999")
	for rate, denied := range map[string]int{
		"1/d": 8, "1/s": 8, "65535/s": 8,
		"1000000000/s": 0, // the grace for a clock in µs is 1000 units
	} {
		r := rule("r", rate, 1)
		r.Limit.Strict = true
		got := mustRun(t, log, config(policy.Settings{Rules: []policy.RuleSpec{r}}))
		if got.Requests != 12 || got.Denied != denied || got.First != "0001-05-17T10:05:03Z" || got.Last != "9999-05-17T10:05:03Z" {
			t.Errorf("%s: %d requests, %d denied, %s to %s", rate, got.Requests, got.Denied, got.First, got.Last)
		}
	}
}

// A log that is longer than the rules can count is an error, not a panic or an
// overflow. Only rules that remember for years make a silence last so long.
func TestLogLongerThanTime(t *testing.T) {
	t.Parallel()
	slow, fast := rule("slow", "1/d", 100_000), rule("fast", "65533/s", 1)
	slow.Limit.Strict, fast.Limit.Strict = true, true
	c := config(policy.Settings{Rules: []policy.RuleSpec{slow, fast}})
	line := `192.0.2.7 - - [17/May/%:10:05:03 +0000] "GET / HTTP/1.1" 200 1` + "\n"
	for stream, year := range map[bool]string{false: "2031", true: "9999"} {
		c.Stream = stream
		log := strings.ReplaceAll(line, "%", "2026") + strings.ReplaceAll(line, "%", year)
		_, err := run(t.Context(), strings.NewReader(log), c)
		if err == nil || !strings.Contains(err.Error(), "covers 2026-05-17 to "+year+"-05-17, which is longer than the ") {
			t.Errorf("stream %v: error %v", stream, err)
		}
	}
}

// A log that goes on beyond the last window of a second is an error, whether it gets there by a
// silence or begins there.
func TestLogBeyondLastWindow(t *testing.T) {
	t.Parallel()
	second := rule("second", "1/s", 0)
	second.Limit.Algorithm = fastlimit.FixedWindow
	c := config(policy.Settings{Rules: []policy.RuleSpec{second}})
	line := `192.0.2.7 - - [17/May/%:10:05:03 +0000] "GET / HTTP/1.1" 200 1` + "\n"
	for _, years := range [][]string{{"2026", "2107"}, {"2107"}} {
		log := ""
		for _, year := range years {
			log += strings.ReplaceAll(line, "%", year)
		}
		if _, err := run(t.Context(), strings.NewReader(log), c); err == nil || !strings.Contains(err.Error(), "the log reaches 2107-05-17, and these rules can count windows until 2106-02-07") {
			t.Errorf("%v: error %v", years, err)
		}
	}
}

func TestBadConfig(t *testing.T) {
	t.Parallel()
	s := policy.Settings{Rules: []policy.RuleSpec{rule("r", "1/s", 1)}}
	for name, change := range map[string]func(*Config){
		"no rules":          func(c *Config) { c.Limiter.Rules = nil },
		"rules disagree":    func(c *Config) { c.Policy.Rules = nil },
		"odd period":        func(c *Config) { c.Limiter.Rules[0].Rate.Per = time.Second / 3 },
		"too little memory": func(c *Config) { c.Limiter.Memory = 1 },
	} {
		c := config(s)
		change(&c)
		if _, err := run(t.Context(), strings.NewReader(""), c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
