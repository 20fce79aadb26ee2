package policy

import (
	"net/netip"

	"github.com/fastlimit/fastlimit/internal/nat64"
)

// Request is what a policy decides on. All bytes are borrowed for the call.
// [Engine.Assemble] makes one from a request as it arrived. If you fill it in yourself, use
// the canonical forms.
type Request struct {
	Client netip.Addr // see [Identity]
	Method []byte     // case counts
	Host   []byte     // canonical, see [AppendHost]; may be empty
	Path   []byte     // canonical, see [AppendPath]
	Fields Fields     // nil: neither headers nor cookies

	// Trusted says that a trusted proxy has sent the request, so that its headers may
	// name the cost ([RuleSpec.CostFrom]). Assemble sets it.
	Trusted bool

	// SkipIPRules leaves out the rules with an address in their key, as Assemble does
	// for an unnamed request with [UnnamedSkip]. The lists still use Client.
	SkipIPRules bool

	// Set by Assemble: the values of by.fields, so that Decide need not look them up again.
	// by is the engine that did it.
	values [][]byte
	by     *Engine

	// Set by Assemble: the path as other servers read it, and, for keys, the reading in
	// which most spellings are the same; nil: Path.
	others [][]byte
	loose  []byte
}

// anyPath reports whether a pattern matches the path as some server reads it.
func (r *Request) anyPath(patterns []pattern) bool {
	if anyOf(patterns, r.Path) {
		return true
	}
	for _, p := range r.others {
		if anyOf(patterns, p) {
			return true
		}
	}
	return false
}

// everyPath reports whether patterns match the path as every server reads it.
func (r *Request) everyPath(patterns []pattern) bool {
	if !anyOf(patterns, r.Path) {
		return false
	}
	for _, p := range r.others {
		if !anyOf(patterns, p) {
			return false
		}
	}
	return true
}

// Fields gives access to the headers and cookies of a request. Both methods return all
// values of a name in order, none if the request lacks it. They are called with the name of
// a header in the canonical form of [net/textproto.CanonicalMIMEHeaderKey], and with that
// of a cookie as configured. The returned slice must be valid until the next lookup, and
// the values until the call that was given the Fields returns.
type Fields interface {
	Header(name string) [][]byte
	Cookie(name string) [][]byte
}

// Incoming is a request as it arrived, with nothing in it verified.
type Incoming struct {
	Peer   netip.Addr // of the connection; see [PeerAddr]
	Method []byte
	Target []byte // of the request line: a path, a URL or "*"
	Host   []byte // value of the Host header; empty if there was none
	Fields Fields // nil: neither headers nor cookies

	// Passed are those of Fields that the upstream gets, which rules read. nil means all.
	Passed Fields
}

// Refusal is why no decision can be made on a request: it is unclear whom to charge, or
// an upstream might read the request differently. The zero value is none.
type Refusal uint8

// The reasons of [Engine.Assemble], in the order in which it checks, and of
// [Engine.Decide].
const (
	NotRefused      Refusal = iota
	RefusedPeer             // the peer has no address, and all such peers would share one key
	RefusedTarget           // the target is not valid, or a proxy named part of the original request twice
	RefusedUnnamed          // a trusted proxy names no client or no request, see [UnnamedDeny]
	RefusedHost             // the host is not valid
	RefusedRepeated         // a header or cookie that a key uses occurs more than once
	RefusedCost             // by [Engine.Decide]: a trusted proxy named a bad cost, see [BadCostReject]
)

// String returns the reason in one word, "none" for NotRefused. fastlimit's metrics of bad
// requests use the same words.
func (r Refusal) String() string {
	return nameOf(r, "none", "peer", "target", "unnamed", "host", "repeated", "cost")
}

// AssembleResult is what [Engine.Assemble] found out besides the request itself.
type AssembleResult struct {
	Refused Refusal
	Trusted bool // the peer is a trusted proxy

	// The request is unnamed: a trusted proxy did not name the client, or did not name the
	// original request. Settings.OnUnnamed has already been applied.
	NoClient, NoRequest bool
}

// Assemble fills in r from a request as it arrived: who the client is, which request a
// trusted proxy asks about, and the canonical forms of host and path. r borrows from in
// and from s until s is used for another request.
//
// A refused request must not be passed to [Engine.Decide]; r then has the parts that could
// be read. (The replay of logs decides on it anyway, as the server that wrote the log has
// answered it.) Assemble does not use the allow and deny lists. It does not allocate once s
// has grown to its size.
func (e *Engine) Assemble(id *Identity, in *Incoming, s *Scratch, r *Request) (result AssembleResult) {
	peer := unmapped(in.Peer)
	if !identifies(peer) {
		*r = Request{}
		return AssembleResult{Refused: RefusedPeer}
	}
	// Field by field: the compiler would build a whole Request on the stack and copy it
	// (BenchmarkAssemble).
	r.Client, r.Method, r.Fields, r.Trusted, r.SkipIPRules, r.by = peer, in.Method, in.Fields, false, false, nil
	if in.Passed != nil {
		r.Fields = in.Passed
	}
	o := original{target: in.Target, host: in.Host}
	if len(o.target) > 0 && o.target[0] != '/' {
		// The authority of an absolute target overrides Host, RFC 9112 §3.2.2.
		if authority, _, _ := splitTarget(o.target); authority != nil {
			o.host, o.otherHost = authority, true
		}
	}
	if id.trusts(peer) {
		if result = id.proxied(in.Fields, r, &o); result.Refused != NotRefused {
			r.Host, r.Path, r.others, r.loose = nil, nil, nil, nil
			return result
		}
	}
	r.Client = nat64.Client(r.Client)
	var ok bool
	if o.otherHost { // an invalid Host is refused even if it is not used, RFC 9112 §3.2
		if _, ok = s.canonicalHost(in.Host); !ok {
			result.Refused = RefusedHost
		}
	}
	if r.Host, ok = s.canonicalHost(o.host); !ok {
		r.Host, result.Refused = nil, RefusedHost
	}
	if !s.readPath(o.target, r) {
		r.Path, r.others, r.loose, result.Refused = nil, nil, nil, RefusedTarget
	}
	if len(e.fields) > 0 {
		if once := e.lookUp(r.Fields, s); !once && result.Refused == NotRefused {
			result.Refused = RefusedRepeated
		}
		r.values, r.by = s.values, e
	}
	return result
}

// original is the target and host of the request that a decision is about, not canonical
// yet.
type original struct {
	target, host []byte
	otherHost    bool // host is not that of the Host header
}

// proxied reads what a trusted proxy says about a request: the client, and the original
// request if one is configured.
func (id *Identity) proxied(f Fields, r *Request, o *original) (result AssembleResult) {
	result.Trusted, r.Trusted = true, true
	if f == nil {
		f = noFields{}
	}
	client, named := id.walk(r.Client, f.Header(id.header))
	request, ok := id.originalRequest(f, r, o)
	if !ok {
		result.Refused = RefusedTarget
		return result
	}
	r.Client, result.NoClient, result.NoRequest = client, !named, !request
	if named && request {
		return result
	}
	switch id.unnamed {
	case UnnamedDeny:
		result.Refused = RefusedUnnamed
	case UnnamedSkip:
		r.SkipIPRules = true
		if !named {
			r.Client = netip.Addr{} // the lists must not be asked about the proxy either
		}
	}
	return result
}

// originalRequest replaces method, target and host with those that a trusted proxy names.
// named is false if the proxy should name the target but does not. ok is false if one of
// them is there twice, as one of the two may come from the client.
func (id *Identity) originalRequest(f Fields, r *Request, o *original) (named, ok bool) {
	method, ok1 := single(f, id.original.method)
	target, ok2 := single(f, id.original.target)
	host, ok3 := single(f, id.original.host)
	if !ok1 || !ok2 || !ok3 {
		return false, false
	}
	if len(method) > 0 {
		r.Method = method
	}
	if len(host) > 0 {
		o.host, o.otherHost = host, true
	}
	if len(target) > 0 {
		o.target = target
	}
	return len(target) > 0 || id.original.target == "", true
}

// Original returns what a trusted proxy says about the request that was decided, as it has
// sent it, or nil if it says nothing, or none of it is read. It is for logs: r is the
// request that [Engine.Assemble] has made.
func (id *Identity) Original(r *Request) (method, target, host []byte) {
	if !r.Trusted || r.Fields == nil {
		return nil, nil, nil
	}
	method, _ = single(r.Fields, id.original.method)
	target, _ = single(r.Fields, id.original.target)
	host, _ = single(r.Fields, id.original.host)
	return method, target, host
}

// single returns the only header of that name, empty if there is none or no name; ok is
// false if there are several.
func single(f Fields, name string) (value []byte, ok bool) {
	if name == "" {
		return nil, true
	}
	all := f.Header(name)
	return first(all), len(all) <= 1
}

// lookUp reads the first value of each header and cookie that a key uses into s.values.
// once is false if one has several: an upstream that uses the last one would see a key
// that no rule has counted.
func (e *Engine) lookUp(f Fields, s *Scratch) (once bool) {
	s.values = s.values[:0]
	once = true
	for _, p := range e.fields {
		all := p.values(f)
		once = once && len(all) <= 1
		s.values = append(s.values, first(all))
	}
	return once
}

// values returns all values of the header or cookie that a key part names.
func (p KeyPart) values(f Fields) [][]byte {
	switch {
	case f == nil:
		return nil
	case p.Kind == KeyCookie:
		return f.Cookie(p.Name)
	}
	return f.Header(p.Name)
}

func first(values [][]byte) []byte {
	if len(values) == 0 {
		return nil
	}
	return values[0]
}

// noFields stands for the nil [Fields], a request without headers and cookies.
type noFields struct{}

func (noFields) Header(string) [][]byte { return nil }
func (noFields) Cookie(string) [][]byte { return nil }
