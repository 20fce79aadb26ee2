package decide

import (
	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/valyala/fasthttp"
)

// DenyResponse is the answer to those whom one rule denies on one listener. It
// is immutable and safe for concurrent use.
type DenyResponse struct {
	answer *denial.Answer
	policy []byte // of RateLimit-Policy
}

var (
	keyRetryAfter = []byte(denial.RetryAfter)
	keyRateLimit  = []byte(denial.RateLimit)
	keyRemaining  = []byte(denial.Remaining)
	keyReset      = []byte(denial.Reset)
	keyClear      = []byte(denial.Clear)

	keyPolicy       = []byte(denial.RateLimitPolicy)
	keyCacheControl = []byte(denial.CacheControl)
	noStore         = []byte(denial.NoStore)
)

// NewDenyResponse renders the answer of a rule, whose defaults are filled in,
// under an HTTP status.
func NewDenyResponse(rule fastlimit.RuleConfig, status int) *DenyResponse {
	a := denial.New(rule, status)
	return &DenyResponse{answer: a, policy: []byte(a.Policy)}
}

// Write answers a denied request. v is scratch. Copying a header made beforehand
// and overwriting what changes costs more: all fields once, then a search for
// each value.
func (p *DenyResponse) Write(resp *fasthttp.Response, d *fastlimit.Decision, v *denial.Values) {
	p.answer.Render(v, d)
	h := &resp.Header
	h.SetStatusCode(p.answer.Status)
	h.SetContentType(denial.ProblemMediaType)
	h.SetCanonical(keyRetryAfter, v.RetryAfter)
	h.SetCanonical(keyPolicy, p.policy)
	h.SetCanonical(keyRateLimit, v.RateLimit)
	h.SetCanonical(keyRemaining, v.Remaining)
	h.SetCanonical(keyReset, v.Reset)
	h.SetCanonical(keyClear, v.Clear)
	h.SetCanonical(keyCacheControl, noStore)
	resp.SetBodyRaw(p.answer.Body)
}

// listedResponse is the answer to a client on the deny list.
type listedResponse struct {
	header fasthttp.ResponseHeader
	body   []byte
}

func newListedResponse() *listedResponse {
	p := &listedResponse{body: denial.Listed()}
	p.header.SetStatusCode(fasthttp.StatusForbidden)
	p.header.SetNoDefaultContentType(true)
	p.header.SetContentType(denial.ProblemMediaType)
	p.header.SetCanonical([]byte(denial.CacheControl), []byte(denial.NoStore))
	return p
}

func (p *listedResponse) write(resp *fasthttp.Response) {
	p.header.CopyTo(&resp.Header)
	resp.SetBodyRaw(p.body)
}
