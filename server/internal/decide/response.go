package decide

import (
	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/valyala/fasthttp"
)

// writeDenial answers a denied request; b is scratch. Copying a prepared header and overwriting what changes
// would cost more: a copy of all fields, then a search for each value.
func writeDenial(resp *fasthttp.Response, a *denial.Answer, d *fastlimit.Decision, b *denial.Buffer) {
	resp.Header.SetStatusCode(a.Status)
	resp.Header.SetContentType(a.ContentType)
	setFields(resp, a, d, b)
	if a.Body != nil {
		resp.SetBodyRaw(a.Body)
		return
	}
	resp.SetBody(a.BodyIn(b, d))
}

// setFields sets the fields that show a client its limit.
func setFields(resp *fasthttp.Response, a *denial.Answer, d *fastlimit.Decision, b *denial.Buffer) {
	a.SetFields(b, d, func(name denial.Name, value []byte) { resp.Header.SetCanonical(name.Bytes, value) })
}

// writeAdmission shows an admitted client what is known of its limit.
func (r *requestState) writeAdmission(resp *fasthttp.Response) {
	if a, d := r.shown(); a != nil {
		setFields(resp, a, &d, &r.values)
	}
}

var listedBody = denial.Listed()

// writeListed answers a client on the deny list, always with a problem document: a listener's page is for
// clients who may come back, and may say when.
func writeListed(resp *fasthttp.Response) {
	h := &resp.Header
	h.SetStatusCode(fasthttp.StatusForbidden)
	h.SetContentType(denial.ProblemMediaType)
	h.Set(denial.CacheControl, denial.NoStore)
	resp.SetBodyRaw(listedBody)
}
