package denial

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"pgregory.net/rapid"
)

var everySet = []HeaderSet{RateLimit, RateLimitLegacy, XRateLimit, XRateLimitLimit}

// What each set says of a denial, of an admission by an exact bucket, and of one by
// filter or sketch. The lines are those of the documents that define the sets.
func TestSets(t *testing.T) {
	t.Parallel()
	denied := fastlimit.Decision{RetryAfter: 1001 * time.Millisecond, TimeToEmpty: 4 * time.Second}
	known, unknown := fastlimit.Decision{Remaining: 7, TimeToEmpty: 1500 * time.Millisecond}, fastlimit.Decision{Remaining: fastlimit.RemainingUnknown}
	known.Allowed, unknown.Allowed = true, true
	const policy = `RateLimit-Policy: "per-ip";q=200;w=2`
	for _, c := range []struct {
		sets                   []HeaderSet
		denied, known, unknown string
	}{
		{
			nil,
			policy + `|Retry-After: 2|X-RateLimit-Reset: 1.001|Cache-Control: no-store|RateLimit: "per-ip";r=0;t=2|X-RateLimit-Remaining: 0|X-RateLimit-Clear: 4.000|`,
			policy + `|RateLimit: "per-ip";r=7|X-RateLimit-Remaining: 7|X-RateLimit-Clear: 1.500|`,
			policy + `|`,
		},
		{
			[]HeaderSet{RateLimit},
			policy + `|Retry-After: 2|Cache-Control: no-store|RateLimit: "per-ip";r=0;t=2|`,
			policy + `|RateLimit: "per-ip";r=7|`,
			policy + `|`,
		},
		{
			[]HeaderSet{RateLimitLegacy},
			`Retry-After: 2|Cache-Control: no-store|RateLimit-Limit: 200|RateLimit-Remaining: 0|RateLimit-Reset: 2|`,
			`RateLimit-Limit: 200|RateLimit-Remaining: 7|RateLimit-Reset: 2|`,
			``,
		},
		{
			[]HeaderSet{XRateLimit},
			`Retry-After: 2|X-RateLimit-Reset: 1.001|Cache-Control: no-store|X-RateLimit-Remaining: 0|X-RateLimit-Clear: 4.000|`,
			`X-RateLimit-Remaining: 7|X-RateLimit-Clear: 1.500|`,
			``,
		},
		{
			[]HeaderSet{XRateLimitLimit},
			`Retry-After: 2|Cache-Control: no-store|X-RateLimit-Limit: 200|X-RateLimit-Remaining: 0|X-RateLimit-Retry-After: 2|`,
			`X-RateLimit-Limit: 200|X-RateLimit-Remaining: 7|`,
			`X-RateLimit-Limit: 200|`,
		},
		{[]HeaderSet{NoHeaders}, `Retry-After: 2|Cache-Control: no-store|`, ``, ``},
		{
			everySet,
			policy + `|Retry-After: 2|X-RateLimit-Reset: 1.001|Cache-Control: no-store|RateLimit: "per-ip";r=0;t=2|RateLimit-Limit: 200|RateLimit-Remaining: 0|RateLimit-Reset: 2|` +
				`X-RateLimit-Limit: 200|X-RateLimit-Remaining: 0|X-RateLimit-Clear: 4.000|X-RateLimit-Retry-After: 2|`,
			policy + `|RateLimit: "per-ip";r=7|RateLimit-Limit: 200|RateLimit-Remaining: 7|RateLimit-Reset: 2|X-RateLimit-Limit: 200|X-RateLimit-Remaining: 7|X-RateLimit-Clear: 1.500|`,
			policy + `|X-RateLimit-Limit: 200|`,
		},
	} {
		a := New(rule("per-ip", 100, time.Second, 200), Options{Status: 429, Headers: c.sets})
		for _, v := range []struct {
			d    *fastlimit.Decision
			want string
		}{{&denied, c.denied}, {&known, c.known}, {&unknown, c.unknown}} {
			if got := strings.ReplaceAll(string(a.AppendFields(nil, v.d)), "\r\n", "|"); got != v.want {
				t.Errorf("%v, %+v:\n got %s\nwant %s", c.sets, *v.d, got, v.want)
			}
		}
	}
}

// Lines and fields are two forms of the same, each field once, for any sets.
func TestLinesAreTheFields(t *testing.T) {
	t.Parallel()
	var b Buffer
	rapid.Check(t, func(t *rapid.T) {
		d := fastlimit.Decision{
			Remaining:   rapid.Int64Range(-1, math.MaxInt64).Draw(t, "remaining"),
			RetryAfter:  time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "retry")),
			TimeToEmpty: time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "clear")),
		}
		d.Allowed = rapid.Bool().Draw(t, "allowed")
		sets := rapid.SliceOfDistinct(rapid.SampledFrom(everySet), rapid.ID[HeaderSet]).Draw(t, "sets")
		a := New(rule(strings.Repeat("n", rapid.IntRange(1, 300).Draw(t, "name")), 100, time.Second, 200), Options{Status: 429, Headers: sets})
		var lines strings.Builder
		seen := map[string]bool{}
		a.SetFields(&b, &d, func(n Name, value []byte) {
			if n.String != string(n.Bytes) || seen[n.String] {
				t.Fatalf("%q is %q, or comes twice", n.String, n.Bytes)
			}
			seen[n.String] = true
			fmt.Fprintf(&lines, "%s: %s\r\n", n.Bytes, value)
		})
		if got := string(a.AppendFields([]byte("before "), &d)); got != "before "+lines.String() {
			t.Fatalf("lines\n%s\nfields\n%s", got, lines.String())
		}
		if !d.Allowed && (!seen["Retry-After"] || !seen["Cache-Control"]) {
			t.Fatalf("a denial with %v has %v", sets, seen)
		}
	})
}

func TestCheckHeaders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sets []HeaderSet
		at   int
		want string
	}{
		{nil, 0, ""},
		{everySet, 0, ""},
		{[]HeaderSet{NoHeaders}, 0, ""},
		{[]HeaderSet{RateLimit, NoHeaders}, 1, "none is listed with others"},
		{[]HeaderSet{NoHeaders, RateLimit}, 0, "none is listed with others"},
		{[]HeaderSet{XRateLimit, RateLimit, XRateLimit}, 2, "x-ratelimit is listed twice"},
		{[]HeaderSet{RateLimit, 5}, 1, "header set 5 is unknown"},
		{[]HeaderSet{255}, 0, "header set 255 is unknown"},
	} {
		at, problem, fix := CheckHeaders(c.sets)
		if at != c.at || problem != c.want || (fix == "") != (problem == "") {
			t.Errorf("%v: %d, %q, %q; want %d, %q", c.sets, at, problem, fix, c.at, c.want)
		}
	}
}
