package suggest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"net/netip"

	"github.com/cespare/xxhash/v2"
	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/internal/keytext"
	"github.com/fastlimit/fastlimit/policy"
)

// collector keeps the arrivals of all clients until the logs have been read.
type collector struct {
	engine  *policy.Engine
	scratch policy.Scratch
	tables  []*table
	budget  int64
	used    int64 // bytes of all tables
	key     []byte
	peak    peak

	started     bool
	start, last int64 // Unix µs
	fractions   bool  // some time is not a whole second
}

// table holds the data on one rule's clients.
type table struct {
	spec     policy.RuleSpec
	clients  map[string]*arrivals
	requests uint64 // to which the rule applies, including those of clients that are left out
	used     int64  // bytes, see clientBytes
	// mask is 2^k - 1 if one client in 2^k is kept, those whose hash ends in k zeros.
	mask uint64
}

// clientBytes is what a client takes besides its key and its buffer: arrivals, and a map slot with its share
// of free slots (TestMemoryOfAClient).
const clientBytes = 120

// leastSample is the least number of clients in a sample: with fewer, 99.9 % of them would be all of them.
const leastSample = 1000

// request records a request in the tables of all rules that apply to it.
func (c *collector) request(at int64, r *policy.Request) error {
	if !c.started {
		c.started, c.start = true, at
	}
	c.last = at
	c.peak.add(at, r)
	c.fractions = c.fractions || at%second != 0
	for _, charge := range c.engine.Applying(r, &c.scratch) {
		t := c.tables[(*engine.Rule)(charge.Rule).Index()]
		t.requests++
		c.key = t.appendKey(c.key[:0], r)
		a := t.clients[string(c.key)]
		if a == nil {
			if t.mask != 0 && hash(c.key)&t.mask != 0 {
				continue
			}
			a = new(arrivals)
			t.clients[string(c.key)] = a
			c.grow(t, clientBytes+int64(len(c.key)))
		}
		before := cap(a.written)
		a.add(at - c.start)
		c.grow(t, int64(cap(a.written)-before))
	}
	if c.used > c.budget {
		return c.shrink()
	}
	return nil
}

func (c *collector) grow(t *table, bytes int64) {
	t.used += bytes
	c.used += bytes
}

// shrink leaves out every second client of the largest table until everything fits. A hash of the client
// decides which, so the rest is a fair sample, and stays one.
func (c *collector) shrink() error {
	for c.used > c.budget {
		t := c.tables[0]
		for _, other := range c.tables {
			if other.used > t.used {
				t = other
			}
		}
		all, used := len(t.clients), t.used
		t.mask = t.mask<<1 | 1
		for key, a := range t.clients {
			if hash([]byte(key))&t.mask != 0 {
				delete(t.clients, key)
				c.grow(t, -int64(clientBytes+len(key)+cap(a.written)))
			}
		}
		if len(t.clients) < leastSample {
			return fmt.Errorf("the log does not fit --memory: %s by %s already took %d MiB, and fewer would not be a sample; raise it, or name a part of the log",
				count(all, "client"), keyName(&t.spec), used>>20)
		}
		// A map keeps the slots of deleted keys.
		kept := make(map[string]*arrivals, len(t.clients))
		maps.Copy(kept, t.clients)
		t.clients = kept
	}
	return nil
}

// hash has a fixed seed, so that two runs over a log look at the same clients.
func hash(key []byte) uint64 { return xxhash.Sum64(key) }

// appendKey appends the parts of a request's key, each preceded by its length. The rule
// applies, so all of them are there.
func (t *table) appendKey(dst []byte, r *policy.Request) []byte {
	var raw [16]byte
	for _, p := range t.spec.Key {
		var v []byte
		switch p.Kind {
		case policy.KeyIP:
			v, _ = t.prefix(r.Client).Addr().AppendBinary(raw[:0]) // never fails
		case policy.KeyHeader:
			v = r.Fields.Header(p.Name)[0]
		case policy.KeyCookie:
			v = r.Fields.Cookie(p.Name)[0]
		case policy.KeyMethod:
			v = r.Method
		case policy.KeyHost:
			v = r.Host
		case policy.KeyPath:
			v = r.Path
		}
		dst = binary.AppendUvarint(dst, uint64(len(v)))
		dst = append(dst, v...)
	}
	return dst
}

// prefix returns the prefix by which the rule counts an address.
func (t *table) prefix(addr netip.Addr) netip.Prefix {
	bits := t.spec.Limit.IPv6Prefix
	if addr.Is4() {
		bits = t.spec.Limit.IPv4Prefix
	}
	p, err := addr.Prefix(bits)
	if err != nil {
		panic("BUG: suggest: " + err.Error()) // the limiter has checked the lengths
	}
	return p
}

// keyText formats a key for people: an address as its prefix if that covers more. Long parts are cut.
func (t *table) keyText(key string) *keytext.Builder {
	const longest = 80 // bytes
	text, rest := new(keytext.Builder), []byte(key)
	for _, p := range t.spec.Key {
		size, w := binary.Uvarint(rest)
		v := rest[w : w+int(min(size, math.MaxInt32))]
		rest = rest[w+len(v):]
		addr, ok := netip.AddrFromSlice(v)
		switch {
		case p.Kind == policy.KeyGlobal:
			text.Add("everybody", longest)
		case p.Kind != policy.KeyIP || !ok:
			text.Add(string(v), longest)
		default:
			prefix := t.prefix(addr)
			text.Add(keytext.Prefix(prefix), longest)
		}
	}
	return text
}
