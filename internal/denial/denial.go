// Package denial renders the response to a denied client, header fields and problem
// document of a 429, for every server and middleware.
//
// Under a flood nearly all responses are denials, so everything that depends only on
// the rule is rendered once ([New]), and a request writes only digits
// ([Answer.Render], BenchmarkRender).
//
//	Retry-After: 1                              RFC 9110, whole seconds, at least 1
//	RateLimit-Policy: "per-ip";q=200;w=2        draft-ietf-httpapi-ratelimit-headers-08 and later
//	RateLimit: "per-ip";r=0;t=1
//	X-RateLimit-Remaining: 0                    units that would be admitted now
//	X-RateLimit-Reset: 0.010                    seconds until the request would be admitted
//	X-RateLimit-Clear: 2.000                    seconds until the bucket is empty
//	Content-Type: application/problem+json      RFC 9457, type quota-exceeded
//	Cache-Control: no-store                     RFC 6585 §4: a 429 must not be stored
//
// A leaky bucket has no window. The policy is the pair that says the same: q
// is the burst B, and w the whole seconds, rounded up, in which B units leak
// out. All waiting times are rounded up: a client that waits that long is admitted.
package denial

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit"
)

// What every problem document is sent with.
const (
	ContentType      = "Content-Type"
	ProblemMediaType = "application/problem+json"
	CacheControl     = "Cache-Control"
	NoStore          = "no-store"
)

// quotaExceeded is the problem type that the RateLimit draft registers.
const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

// maxInteger is the largest Integer of a structured field, RFC 9651 §3.3.1.
const maxInteger = 999_999_999_999_999

// Answer is the constant part of the denials by one rule. It is immutable and
// safe for concurrent use.
type Answer struct {
	Status int    // HTTP status
	Body   []byte // problem document; do not change

	policy []byte // value of RateLimit-Policy
	item   string // the name of the rule as it begins an item of RateLimit
}

// New renders the answer of a rule, whose defaults are filled in, under an HTTP
// status.
func New(rule fastlimit.RuleConfig, status int) *Answer {
	name := policyName(rule.Name)
	item := quote(name)
	return &Answer{
		Status: status,
		Body: mustJSON(problem{
			Type:     quotaExceeded,
			Title:    "Quota Exceeded",
			Status:   status,
			Detail:   detail(rule),
			Violated: []string{name},
		}),
		policy: fmt.Appendf(nil, "%s;q=%d;w=%d", item, min(rule.Burst, maxInteger), leakSeconds(rule)),
		item:   item,
	}
}

// detail says which limit is exceeded. A window has no burst.
func detail(rule fastlimit.RuleConfig) string {
	if rule.Algorithm == fastlimit.FixedWindow {
		return fmt.Sprintf("The limit of %v is exceeded.", rule.Rate)
	}
	return fmt.Sprintf("The limit of %v with a burst of %d is exceeded.", rule.Rate, rule.Burst)
}

// Problem renders a problem document without a type of its own: its title is
// the status text.
func Problem(status int, detail string) []byte {
	return mustJSON(problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail})
}

// Listed is the document for a client on the deny list, a 403.
func Listed() []byte { return Problem(http.StatusForbidden, "The client is on the deny list.") }

type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail"`
	Violated []string `json:"violated-policies,omitempty"`
}

func mustJSON(p problem) []byte {
	b, err := json.Marshal(p)
	if err != nil {
		panic("BUG: denial: a problem document does not encode: " + err.Error())
	}
	return b
}

// leakSeconds is B·T in whole seconds, rounded up, at least 1.
func leakSeconds(rule fastlimit.RuleConfig) uint64 {
	r := rule.Rate
	secs := float64(rule.Burst) / float64(r.N) * r.Per.Seconds()
	if secs >= maxInteger {
		return maxInteger
	}
	// The product is exact to 1 in 2^50; a whole number must not be rounded
	// up to the next one.
	whole := uint64(secs + 1 - 1e-9)
	return max(whole, 1)
}

// policyName is the name with everything percent-encoded that a String of a
// structured field cannot hold.
func policyName(name string) string {
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; c < 0x20 || c > 0x7e {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// quote serializes a String, RFC 9651 §4.1.6.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

func ceil(d, unit time.Duration) int64 {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}
