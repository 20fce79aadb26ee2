package explain

import (
	"net/http"
	"net/netip"

	"github.com/fastlimit/fastlimit/policy"
)

// incoming is a request of a client as policies take it.
func incoming(client netip.Addr, r *http.Request) *policy.Incoming {
	return &policy.Incoming{Peer: client, Method: []byte(r.Method), Target: []byte(r.RequestURI), Host: []byte(r.Host), Fields: fields{r}}
}

// fields are the headers and cookies of a request.
type fields struct{ *http.Request }

// Header implements policy.Fields.
func (f fields) Header(name string) (values [][]byte) {
	for _, v := range f.Request.Header[name] {
		values = append(values, []byte(v))
	}
	return values
}

// Cookie implements policy.Fields.
func (f fields) Cookie(name string) (values [][]byte) {
	for _, c := range f.CookiesNamed(name) {
		values = append(values, []byte(c.Value))
	}
	return values
}
