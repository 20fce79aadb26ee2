package fastlimit

import (
	"net/netip"

	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/sketch"
)

// Key identifies one client of one rule. It carries the client's digest and
// borrows the bytes it was made from: they must stay unchanged until the call
// that the key is handed to returns. The text is read only when a client is
// escalated to a shared exact tier. A key works with the rule that made it;
// any other one panics, and so does the zero value, the key of no client.
type Key engine.Key

// Digest is the keyed hash of the client by which the limiter knows it: the same for all
// keys of one client and rule, and of two clients different but for a chance of 2^-64. It
// is for tables of clients beside the limiter. No client may learn it.
func (k Key) Digest() sketch.Digest { return engine.Key(k).Digest() }

// Clone returns the same key, which borrows nothing. That of an address is the same
// already; of others it allocates a copy of the parts.
func (k Key) Clone() Key { return Key(engine.Key(k).Clone()) }

// AddrKey is the key of a client address under the rule's prefix lengths, /32
// and /64 unless configured otherwise. An IPv4-mapped IPv6 address is the
// IPv4 address; a zone is ignored. It does not allocate. It panics on the zero
// [netip.Addr], which is nobody's: check addr.IsValid where one may be missing.
func (r *Rule) AddrKey(addr netip.Addr) Key { return Key(r.engine().AddrKey(addr)) }

// BytesKey is the key of a client that is named by byte strings: a header, a
// cookie, a path. Parts are framed, so ("a", "bc") is another client than
// ("ab", "c"). It does not allocate and keeps no reference to the parts
// beyond the life of the key.
func (r *Rule) BytesKey(parts ...[]byte) Key { return Key(r.engine().BytesKey(parts...)) }

// AppendKey appends a name of the client to dst: an address, a prefix where
// the rule's is shorter than the address, or the parts of a byte key with spaces
// between them, each quoted in Go syntax if it has a space, a quote or anything that
// does not print. Different clients of a rule have different names.
func (r *Rule) AppendKey(dst []byte, k Key) []byte { return r.engine().AppendKey(dst, engine.Key(k)) }
