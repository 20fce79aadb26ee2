package server

import (
	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/valyala/fasthttp"
)

// page is the answer to those whom one rule denies on one listener. It is
// immutable and safe for concurrent use.
type page struct {
	answer *denial.Answer
	// header holds every field, the changing ones empty, so that a denial
	// overwrites values in place and compares no more than it must.
	header fasthttp.ResponseHeader
	rule   int // its index, for the key in the log
}

var (
	keyRetryAfter = []byte(denial.RetryAfter)
	keyRateLimit  = []byte(denial.RateLimit)
	keyRemaining  = []byte(denial.Remaining)
	keyReset      = []byte(denial.Reset)
	keyClear      = []byte(denial.Clear)
)

func newPage(rule fastlimit.RuleConfig, index, status int) *page {
	p := &page{answer: denial.New(rule, status), rule: index}
	h := &p.header
	h.SetStatusCode(status)
	h.SetNoDefaultContentType(true)
	h.SetContentType(denial.ProblemMediaType)
	for _, key := range [][]byte{keyRetryAfter, keyRateLimit, keyRemaining, keyReset, keyClear} {
		h.SetCanonical(key, nil)
	}
	h.SetCanonical([]byte(denial.RateLimitPolicy), []byte(p.answer.Policy))
	h.SetCanonical([]byte(denial.CacheControl), []byte(denial.NoStore))
	return p
}

// write answers with the page. v is scratch.
func (p *page) write(resp *fasthttp.Response, d *fastlimit.Decision, v *denial.Values) {
	p.answer.Render(v, d)
	h := &resp.Header
	p.header.CopyTo(h)
	h.SetCanonical(keyRetryAfter, v.RetryAfter)
	h.SetCanonical(keyRateLimit, v.RateLimit)
	h.SetCanonical(keyRemaining, v.Remaining)
	h.SetCanonical(keyReset, v.Reset)
	h.SetCanonical(keyClear, v.Clear)
	resp.SetBodyRaw(p.answer.Body)
}

// listedPage is the answer to a client on the deny list.
type listedPage struct {
	header fasthttp.ResponseHeader
	body   []byte
}

func newListedPage() *listedPage {
	p := &listedPage{body: denial.Listed()}
	p.header.SetStatusCode(fasthttp.StatusForbidden)
	p.header.SetNoDefaultContentType(true)
	p.header.SetContentType(denial.ProblemMediaType)
	p.header.SetCanonical([]byte(denial.CacheControl), []byte(denial.NoStore))
	return p
}

func (p *listedPage) write(resp *fasthttp.Response) {
	p.header.CopyTo(&resp.Header)
	resp.SetBodyRaw(p.body)
}
