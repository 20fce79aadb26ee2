package policy

import "net/netip"

// Request is what a policy looks at. All bytes are borrowed for the call.
// [Engine.Assemble] makes one from a request as it arrived; if you fill one in by
// hand, use the canonical forms.
type Request struct {
	Client netip.Addr // see [Identity]
	Method []byte     // case counts
	Host   []byte     // canonical, see [AppendHost]; may be empty
	Path   []byte     // canonical, see [AppendPath]
	Fields Fields     // nil: neither headers nor cookies

	// Unnamed tells that the client or the original request is not known, and
	// leaves out the rules with an address in their key; see [UnnamedSkip]. The
	// lists still go by Client.
	Unnamed bool

	// Set by Assemble: the headers and cookies that the keys of this engine are
	// made of.
	values [][]byte
	by     *Engine
}

// Fields gives access to the headers and cookies of a request: all values of
// one name, in order, none if the request lacks it. The name of a header comes
// in the canonical form of [net/textproto.CanonicalMIMEHeaderKey], that of a
// cookie as it was configured. Values are borrowed for the call that is given
// the Fields, the slice of them until the next lookup.
type Fields interface {
	Header(name string) [][]byte
	Cookie(name string) [][]byte
}

// Incoming is a request as it arrived, before anything in it is believed.
type Incoming struct {
	Peer   netip.Addr // of the connection; see [PeerAddr]
	Method []byte
	Target []byte // of the request line: a path, a URL or "*"
	Host   []byte // of the Host header, as it was written; empty if there was none
	Fields Fields // nil: neither headers nor cookies
}

// Refusal is why a request must not be judged: nobody would know whom to
// charge, or an upstream might read it differently. The zero value is none.
type Refusal uint8

// The reasons of [Engine.Assemble], in the order in which it looks for them.
const (
	NotRefused      Refusal = iota
	RefusedPeer             // the peer has no address, and all such would share one key
	RefusedTarget           // the target is not valid, or a proxy named part of the original request twice
	RefusedUnnamed          // a trusted proxy names no client or no request, see [UnnamedDeny]
	RefusedHost             // the host is not valid
	RefusedRepeated         // a header or cookie that keys are made of came more than once
)

// Source is what [Engine.Assemble] learned about the origin of a request.
type Source struct {
	Refused Refusal
	Trusted bool // the peer is a trusted proxy

	// What a trusted proxy failed to name; [OnUnnamed] has decided what follows.
	NoClient, NoRequest bool
}

// Assemble turns a request as it arrived into the one to judge, r: who the
// client is, which request a trusted proxy asks about, and the canonical form
// of host and path. r borrows from in and from s until s is used for another
// request.
//
// If the request is refused, r holds what could be read of it: only logs are
// judged by that, since somebody has answered such a request. It does not
// allocate once s has grown to its size. The engine's allow and deny lists are
// left to [Engine.Decide].
func (e *Engine) Assemble(id *Identity, in *Incoming, s *Scratch, r *Request) (from Source) {
	peer := plain(in.Peer)
	if !identifies(peer) {
		return Source{Refused: RefusedPeer}
	}
	*r = Request{Client: peer, Method: in.Method, Fields: in.Fields}
	o := original{target: in.Target, host: in.Host}
	if len(o.target) > 0 && o.target[0] != '/' {
		// The authority of an absolute target overrides Host, RFC 9112 §3.2.2.
		if a := authority(o.target); a != nil {
			o.host, o.otherHost = a, true
		}
	}
	if id.trusts(peer) {
		if from = id.proxied(in.Fields, r, &o); from.Refused != NotRefused {
			return from
		}
	}
	from.Refused = o.canonical(in.Host, s, r)
	if len(e.fields) > 0 {
		if once := e.lookUp(in.Fields, s); !once && from.Refused == NotRefused {
			from.Refused = RefusedRepeated
		}
		r.values, r.by = s.values, e
	}
	return from
}

// original is the request that a decision is about, before it is canonical.
type original struct {
	target, host []byte
	otherHost    bool // host is not that of the Host header
}

// proxied reads what a trusted proxy says of a request: the client, and the
// original request where one is configured.
func (id *Identity) proxied(f Fields, r *Request, o *original) Source {
	from := Source{Trusted: true}
	if f == nil {
		f = noFields{}
	}
	client, named := id.walk(r.Client, f.Header(id.header))
	request, ok := id.originalRequest(f, r, o)
	if !ok {
		from.Refused = RefusedTarget
		return from
	}
	r.Client, from.NoClient, from.NoRequest = client, !named, !request
	if named && request {
		return from
	}
	switch id.unnamed {
	case UnnamedDeny:
		from.Refused = RefusedUnnamed
	case UnnamedSkip:
		r.Unnamed = true
		if !named {
			r.Client = netip.Addr{} // the lists must not know the proxy either
		}
	}
	return from
}

// originalRequest replaces method, target and host by those that a trusted
// proxy names. named is false if it should name the target and does not. ok is
// false if one is named twice: the other may be the client's.
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

// single returns the one header of the name, empty if there is none or no name;
// ok is false if there are several.
func single(f Fields, name string) (value []byte, ok bool) {
	if name == "" {
		return nil, true
	}
	all := f.Header(name)
	return first(all), len(all) <= 1
}

// canonical sets path and host of r, each nil if it is not valid.
func (o *original) canonical(hostHeader []byte, s *Scratch, r *Request) (refused Refusal) {
	var ok bool
	if o.otherHost { // a Host that is not valid is refused all the same, RFC 9112 §3.2
		if _, ok = s.canonicalHost(hostHeader); !ok {
			refused = RefusedHost
		}
	}
	if r.Host, ok = s.canonicalHost(o.host); !ok {
		r.Host, refused = nil, RefusedHost
	}
	if r.Path, ok = s.canonicalPath(o.target); !ok {
		r.Path, refused = nil, RefusedTarget
	}
	return refused
}

// lookUp reads the headers and cookies that keys are made of, the first of each.
// It reports false if one came more than once: an upstream that goes by the
// last one would see a key that no rule has counted.
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

// values returns all headers or cookies that a part of a key asks for.
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

// noFields is a request without headers and cookies.
type noFields struct{}

func (noFields) Header(string) [][]byte { return nil }
func (noFields) Cookie(string) [][]byte { return nil }
