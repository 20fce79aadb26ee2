// Package denial renders the response to a denied client, header fields and body, for every server and
// middleware, and what an admitted client may know about its limit.
//
// Under a flood nearly all responses are denials, so everything that depends only on
// the rule is rendered once ([New]), and a request writes only digits
// ([Answer.AppendFields], BenchmarkAppendFields).
//
//	Retry-After: 1                              RFC 9110, whole seconds, at least 1; on every denial
//	Cache-Control: no-store                     RFC 6585 §4: a 429 must not be stored; on every denial
//
//	RateLimit-Policy: "per-ip";q=200;w=2        [RateLimit]: draft-ietf-httpapi-ratelimit-headers-08 to -11
//	RateLimit: "per-ip";r=0;t=1
//
//	RateLimit-Limit: 200                        [RateLimitLegacy]: the same draft up to -06
//	RateLimit-Remaining: 0
//	RateLimit-Reset: 1                          the same as Retry-After, as that draft wants it
//
//	X-RateLimit-Remaining: 0                    [XRateLimit]: units that would be admitted now
//	X-RateLimit-Reset: 0.010                    seconds until the request would be admitted
//	X-RateLimit-Clear: 2.000                    seconds until the bucket is empty
//
//	X-RateLimit-Limit: 200                      [XRateLimitLimit]: the burst, or the number of a window or log
//	X-RateLimit-Remaining: 0
//	X-RateLimit-Retry-After: 1
//
//	Content-Type: application/problem+json      RFC 9457, type quota-exceeded, unless there is a [Page]
//
// A leaky bucket has no window. The policy is the pair that says the same: q
// is the burst B, and w the whole seconds, rounded up, in which B units leak
// out. Windows and logs are such a pair themselves: q is their number, w their period.
// All waiting times are rounded up: a client that waits that long is admitted.
//
// An admission has no waiting times: neither t nor X-RateLimit-Reset nor X-RateLimit-Retry-After, and
// RateLimit-Reset is when the whole limit is available again. If nothing exact is known of the client, it has
// only what is true of every client: RateLimit-Policy and X-RateLimit-Limit.
package denial

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit"
)

// Fields of every problem document.
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

// Answer is the constant part of a rule's answers. It is immutable and safe for concurrent use.
type Answer struct {
	Status      int // HTTP status of a denial
	ContentType string
	Body        []byte // nil where it varies: see AppendBody; do not change

	page                   *Page // nil: a problem document
	denied, known, unknown fields
}

// Options are how one rule answers.
type Options struct {
	Status  int         // of a denial
	Headers []HeaderSet // as [CheckHeaders] wants them; empty: the default
	Page    *Page       // nil: a problem document
}

// New renders the answers of a rule, whose defaults are filled in.
func New(rule fastlimit.RuleConfig, o Options) *Answer {
	name := policyName(rule.Name)
	item := quote(name)
	return o.answer(name, detail(rule), constants{
		policy: fmt.Sprintf("%s;q=%d;w=%d", item, min(rule.Burst, maxInteger), leakSeconds(rule)),
		item:   item, limit: strconv.FormatUint(rule.Burst, 10),
	})
}

// Banned renders the answers to clients banned by an operator: like a rule named ban that admits nothing, for
// however long.
func Banned(o Options) *Answer {
	return o.answer("ban", "The client is banned.", constants{policy: `"ban";q=0`, item: `"ban"`, limit: "0"})
}

// answer renders the answers of a policy.
func (o *Options) answer(name, detail string, c constants) *Answer {
	a := &Answer{Status: o.Status, ContentType: ProblemMediaType, page: o.Page}
	if a.page == nil {
		a.Body = mustJSON(problem{
			Type:     quotaExceeded,
			Title:    "Quota Exceeded",
			Status:   o.Status,
			Detail:   detail,
			Violated: []string{name},
		})
	} else {
		a.ContentType, a.Body = a.page.contentType, a.page.fixed()
	}
	sets := maskOf(o.Headers)
	a.denied, a.known, a.unknown = c.denied(sets), c.known(sets), c.unknown(sets)
	return a
}

// detail says which limit is exceeded. Windows and logs have no burst.
func detail(rule fastlimit.RuleConfig) string {
	if rule.Algorithm.Periodic() {
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
