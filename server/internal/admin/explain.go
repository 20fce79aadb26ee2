package admin

import (
	"net/http"
	"net/netip"
	"strings"
)

// Explainer says what a client's next request would get. Errors are like those of [Overrides]. trusted means
// that the caller may make changes.
type Explainer interface {
	Rule(rule string, key []string, trusted bool) (any, error) // by one rule
	Key(key []string, trusted bool) (any, error)               // by all rules with such keys
	// Request answers by the rules that apply to a request with Method, Host, RequestURI and Header.
	Request(client netip.Addr, r *http.Request, trusted bool) (reply any, err error)

	// Reset empties the bucket of the client in a body; by names the caller.
	Reset(body []byte, by string) (any, error)
}

// explain answers GET /v1/explain?key=K[&key=K][&rule=R], and with &path=P, &method=M, &host=H or
// &header=NAME:VALUE about a request of the client whose address K is.
func (f *Front) explain(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	key, rule := q["key"], q.Get("rule")
	if n := len(key); n == 0 || n > maxKeyParts {
		problem(w, http.StatusBadRequest, "name the client: GET /v1/explain?key=192.0.2.7, with a key for each part of a rule's")
		return
	}
	call, who := callOf(r), f.Operator()
	_, untrusted := who.Check(&call, f.Addr(), r.Header.Get("Authorization"))
	trusted := untrusted == nil
	about := q.Has("path") || q.Has("method") || q.Has("host") || q.Has("header")
	var reply any
	var err error
	switch {
	case about && rule != "":
		problem(w, http.StatusBadRequest, "rule cannot be combined with path, method, host or header, since a request determines its rules itself; send one or the other")
		return
	case about:
		client, addrErr := netip.ParseAddr(key[0])
		asked, bad := askedRequest(q.Get("method"), q.Get("host"), q.Get("path"), q["header"])
		if addrErr != nil || len(key) != 1 {
			bad = "key: of a request it is the address that sends it, for example 192.0.2.7"
		}
		if bad != "" {
			problem(w, http.StatusBadRequest, bad)
			return
		}
		reply, err = f.Explain.Request(client, asked, trusted)
	case rule != "":
		reply, err = f.Explain.Rule(rule, key, trusted)
	default:
		reply, err = f.Explain.Key(key, trusted)
	}
	writeReply(w, reply, err)
}

// askedRequest builds the request that is asked about. bad says what is wrong with it.
func askedRequest(method, host, path string, headers []string) (r *http.Request, bad string) {
	if path != "" && path[0] != '/' {
		return nil, "path: want one that begins with a slash, for example /login"
	}
	r = &http.Request{Method: method, Host: host, RequestURI: path, Header: http.Header{}}
	if method == "" {
		r.Method = http.MethodGet
	}
	if path == "" {
		r.RequestURI = "/"
	}
	for _, line := range headers {
		name, value, ok := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, "header: want NAME:VALUE, for example X-Api-Key:abc"
		}
		r.Header.Add(name, strings.TrimSpace(value))
	}
	return r, ""
}

// reset answers POST /v1/reset.
func (f *Front) reset(w http.ResponseWriter, r *http.Request) {
	body, ok := readBody(w, r, maxChangeBytes)
	if !ok {
		return
	}
	reply, err := f.Explain.Reset(body, peer(r))
	writeReply(w, reply, err)
}
