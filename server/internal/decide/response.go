package decide

import (
	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/valyala/fasthttp"
)

// writeDenial answers a denied request; v is scratch. Copying a prepared header
// and overwriting what changes would cost more: a copy of all fields, then a search
// for each value.
func writeDenial(resp *fasthttp.Response, a *denial.Answer, d *fastlimit.Decision, v *denial.Values) {
	h := &resp.Header
	h.SetStatusCode(a.Status)
	h.SetContentType(denial.ProblemMediaType)
	a.SetFields(v, d, func(name denial.Name, value []byte) { h.SetCanonical(name.Bytes, value) })
	resp.SetBodyRaw(a.Body)
}

var listedBody = denial.Listed()

// writeListed answers a client on the deny list.
func writeListed(resp *fasthttp.Response) {
	h := &resp.Header
	h.SetStatusCode(fasthttp.StatusForbidden)
	h.SetContentType(denial.ProblemMediaType)
	h.Set(denial.CacheControl, denial.NoStore)
	resp.SetBodyRaw(listedBody)
}
