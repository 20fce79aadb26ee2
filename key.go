package fastlimit

import (
	"net/netip"

	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/sketch"
)

// Key identifies one client of one rule. It carries the client's digest and borrows the
// bytes it was made from, which must stay unchanged until the call that takes the key
// returns. The text is read only when a client is escalated to a shared exact tier. A key
// works with the rule that made it, and with that rule's predecessors and successors
// ([Limiter.With]). Other rules panic on it, and all do on the zero value, which is no client's key.
type Key engine.Key

// Digest returns the keyed hash by which the limiter knows the client. It is the same for
// all keys of one client and rule, and differs between two clients except with a chance of
// 2^-64. It is for tables of clients outside the limiter. No client may learn it.
func (k Key) Digest() sketch.Digest { return engine.Key(k).Digest() }

// Clone returns the same key without borrowed bytes. A key of an address borrows none and
// is returned as it is; for others Clone allocates a copy of the parts.
func (k Key) Clone() Key { return Key(engine.Key(k).Clone()) }

// AddrKey returns the key of a client address under the rule's prefix lengths, /32 and /64
// unless configured otherwise. An IPv4-mapped IPv6 address counts as the IPv4 address; a
// zone is ignored. It does not allocate. It panics on the zero [netip.Addr], which belongs
// to no client: check addr.IsValid where an address may be missing.
func (r *Rule) AddrKey(addr netip.Addr) Key { return Key(r.engine().AddrKey(addr)) }

// BytesKey returns the key of a client that is named by byte strings: a header, a cookie, a
// path. Parts are framed, so ("a", "bc") is another client than ("ab", "c"). It does not
// allocate, and keeps no reference to the parts beyond the life of the key.
func (r *Rule) BytesKey(parts ...[]byte) Key { return Key(r.engine().BytesKey(parts...)) }

// AppendKey appends a name of the client to dst: an address, a prefix if the rule's prefix
// is shorter than the address, or the parts of a byte key separated by spaces. A part is
// quoted in Go syntax if it has a space, a quote or anything that does not print. Different
// clients of a rule have different names.
func (r *Rule) AppendKey(dst []byte, k Key) []byte { return r.engine().AppendKey(dst, engine.Key(k)) }
