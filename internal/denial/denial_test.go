package denial

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket"
	"pgregory.net/rapid"
)

func rule(name string, n uint64, per time.Duration, burst uint64) fastlimit.RuleConfig {
	return fastlimit.RuleConfig{Name: name, Rate: fastlimit.Rate{N: n, Per: per}, Burst: burst}
}

func TestPolicyIsBurstOverItsLeakTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule fastlimit.RuleConfig
		want string
	}{
		{rule("per-ip", 100, time.Second, 200), `"per-ip";q=200;w=2`},
		{rule("per-ip", 100, time.Second, 201), `"per-ip";q=201;w=3`},
		{rule("per-ip", 100, time.Second, 1), `"per-ip";q=1;w=1`},
		{rule("per-ip", 1_000_000, time.Second, 10), `"per-ip";q=10;w=1`},
		{rule("login", 10, time.Minute, 20), `"login";q=20;w=120`},
		{rule("login", 7, time.Minute, 7), `"login";q=7;w=60`},
		{rule("login", 3, time.Second, 9), `"login";q=9;w=3`},
		{rule("daily", 1, 24*time.Hour, 1), `"daily";q=1;w=86400`},
		{rule(`a"b\c`, 1, time.Second, 1), `"a\"b\\c";q=1;w=1`},
		{rule("é\r\n", 1, time.Second, 1), `"%C3%A9%0D%0A";q=1;w=1`},
	} {
		if got := fieldsOf(New(c.rule, Options{Status: 429}), &fastlimit.Decision{})["RateLimit-Policy"]; got != c.want {
			t.Errorf("%v burst %d: got %s, want %s", c.rule.Rate, c.rule.Burst, got, c.want)
		}
	}
}

func TestRenderRoundsWaitsUp(t *testing.T) {
	t.Parallel()
	a := New(rule("per-ip", 100, time.Second, 200), Options{Status: http.StatusTooManyRequests})
	for _, c := range []struct {
		d                              fastlimit.Decision
		retry, limit, left, reset, clr string
	}{
		{
			fastlimit.Decision{RetryAfter: time.Microsecond, TimeToEmpty: 2 * time.Second},
			"1", `"per-ip";r=0;t=1`, "0", "0.001", "2.000",
		},
		{
			fastlimit.Decision{RetryAfter: time.Second, TimeToEmpty: 2*time.Second + 1},
			"1", `"per-ip";r=0;t=1`, "0", "1.000", "2.001",
		},
		{
			fastlimit.Decision{RetryAfter: time.Second + 1, TimeToEmpty: 3 * time.Second, Remaining: 4},
			"2", `"per-ip";r=4;t=2`, "4", "1.001", "3.000",
		},
		{
			fastlimit.Decision{Remaining: fastlimit.RemainingUnknown},
			"1", `"per-ip";r=0;t=1`, "0", "0.000", "0.000",
		},
		{
			fastlimit.Decision{RetryAfter: bucket.Never},
			"9223372037", `"per-ip";r=0;t=9223372037`, "0", "9223372036.855", "0.000",
		},
	} {
		v := fieldsOf(a, &c.d)
		got := []string{v["Retry-After"], v["RateLimit"], v["X-RateLimit-Remaining"], v["X-RateLimit-Reset"], v["X-RateLimit-Clear"]}
		want := []string{c.retry, c.limit, c.left, c.reset, c.clr}
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%+v:\n got %q\nwant %q", c.d, got, want)
		}
	}
}

func TestProblemDocument(t *testing.T) {
	t.Parallel()
	a := New(rule("per-ip", 100, time.Second, 200), Options{Status: http.StatusForbidden})
	var doc map[string]any
	if err := json.Unmarshal(a.Body, &doc); err != nil {
		t.Fatal(err)
	}
	if doc["type"] != "https://iana.org/assignments/http-problem-types#quota-exceeded" {
		t.Errorf("type %v", doc["type"])
	}
	if doc["status"] != 403.0 || doc["title"] == "" || doc["detail"] == "" {
		t.Errorf("status, title or detail: %v", doc)
	}
	if v, ok := doc["violated-policies"].([]any); !ok || len(v) != 1 || v[0] != "per-ip" {
		t.Errorf("violated-policies: %v", doc["violated-policies"])
	}
	if strings.Contains(string(Listed()), "violated") {
		t.Error("a listed client violated no policy")
	}
}

// The oracle is an independent parser of structured fields.
func TestFieldsParseAsStructuredFields(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.String().Draw(t, "name")
		burst := rapid.Uint64Range(1, math.MaxInt64).Draw(t, "burst")
		n := rapid.Uint64Range(1, 1e9).Draw(t, "n")
		per := time.Duration(rapid.Int64Range(1, int64(366*24*time.Hour)).Draw(t, "per"))
		d := fastlimit.Decision{
			Remaining:   rapid.Int64Range(-1, math.MaxInt64).Draw(t, "remaining"),
			RetryAfter:  time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "retry")),
			TimeToEmpty: time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "clear")),
		}
		v := fieldsOf(New(rule(name, n, per, burst), Options{Status: 429}), &d)

		policy, limit := item(t, v["RateLimit-Policy"]), item(t, v["RateLimit"])
		if policy.Value != limit.Value {
			t.Fatalf("names differ: %v and %v", policy.Value, limit.Value)
		}
		if q := integer(t, policy, "q"); q < 1 {
			t.Fatalf("q = %d", q)
		}
		if w := integer(t, policy, "w"); w < 1 {
			t.Fatalf("w = %d", w)
		}
		if r := integer(t, limit, "r"); r < 0 || r > max(d.Remaining, 0) {
			t.Fatalf("r = %d of %d", r, d.Remaining)
		}
		retry, err := strconv.ParseInt(v["Retry-After"], 10, 64)
		if err != nil || retry < 1 || retry != integer(t, limit, "t") {
			t.Fatalf("Retry-After %q beside %q", v["Retry-After"], v["RateLimit"])
		}
		if float64(retry) < d.RetryAfter.Seconds()-1e-6 {
			t.Fatalf("Retry-After %d is before %v", retry, d.RetryAfter)
		}
	})
}

func item(t *rapid.T, field string) httpsfv.Item {
	l, err := httpsfv.UnmarshalList([]string{field})
	if err != nil || len(l) != 1 {
		t.Fatalf("%q is not a list of one: %v", field, err)
	}
	it, ok := l[0].(httpsfv.Item)
	if !ok {
		t.Fatalf("%q holds no item", field)
	}
	if _, ok := it.Value.(string); !ok {
		t.Fatalf("%q does not begin with a String", field)
	}
	return it
}

func integer(t *rapid.T, it httpsfv.Item, name string) int64 {
	v, _ := it.Params.Get(name)
	n, ok := v.(int64)
	if !ok {
		t.Fatalf("parameter %s is %v", name, v)
	}
	return n
}

// fieldsOf are the fields of an answer by name.
func fieldsOf(a *Answer, d *fastlimit.Decision) map[string]string {
	all := map[string]string{}
	var b Buffer
	a.SetFields(&b, d, func(n Name, value []byte) { all[n.String] = string(value) })
	return all
}

func TestAnswersDoNotAllocate(t *testing.T) {
	page, err := NewPage("text/html", "wait {{retry_after}} s")
	if err != nil {
		t.Fatal(err)
	}
	a := New(rule("per-ip", 100, time.Second, 200), Options{Status: 429, Page: page, Headers: everySet})
	d := fastlimit.Decision{RetryAfter: 12 * time.Millisecond, TimeToEmpty: 2 * time.Second}
	var b Buffer
	dst := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(1000, func() {
		dst = a.AppendBody(a.AppendFields(dst[:0], &d), &d)
		a.SetFields(&b, &d, func(Name, []byte) {})
		a.BodyLength(&d)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAppendFields(b *testing.B) {
	a := New(rule("per-ip", 100, time.Second, 200), Options{Status: 429})
	d := fastlimit.Decision{RetryAfter: 12 * time.Millisecond, TimeToEmpty: 2 * time.Second}
	dst := make([]byte, 0, 4096)
	for b.Loop() {
		dst = a.AppendFields(dst[:0], &d)
	}
}
