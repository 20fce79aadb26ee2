package keytext

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"strconv"
)

// A name is a client in few bytes, for tables and for other nodes: a kind, and the bytes of the address, or
// the parts of a key as far as they fit, each after its length. It is copied for every client that gets a
// slot in a table, so nothing is formatted here.
const (
	nameAddr4   = '4' // 4 bytes
	nameAddr6   = '6' // the upper 8 bytes
	nameAddr16  = 'x' // all 16
	nameParts   = 'p'
	namePartial = 'c' // parts, of which some were cut

	partCut  = 1 << 7 // in the length of a part that was cut; if no part has it, the last one was
	printLen = 8      // of its fingerprint, at the end of a cut part, if it fits
)

// MaxName is the longest name, in bytes. A length must not reach partCut.
const MaxName = partCut - 1

// Part is a part of a key, as in a name.
type Part struct {
	Bytes []byte // as far as they are known
	Cut   bool
	Print []byte // of a part that was cut and is long enough, [Fingerprint] of the whole part
}

// AppendName4 appends the name of an IPv4 address.
func AppendName4(dst []byte, addr uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, nameAddr4), addr)
}

// AppendName6 appends the name of an IPv6 prefix of at most 64 bits.
func AppendName6(dst []byte, hi uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, nameAddr6), hi)
}

// AppendName16 appends the name of a longer IPv6 prefix.
func AppendName16(dst []byte, hi, lo uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(append(dst, nameAddr16), hi), lo)
}

// AppendNameOf appends the name of a key's parts within the capacity of dst, which is empty and at most
// [MaxName]. It cuts the longest parts, whose fingerprints are keyed with secret.
func AppendNameOf(dst []byte, parts [][]byte, secret *[32]byte) []byte {
	dst = append(dst, nameParts)
	most := longestPart(parts, cap(dst)-len(dst))
	for _, p := range parts {
		n := min(len(p), most)
		if room := cap(dst) - len(dst); room == 0 || n < len(p) {
			if dst[0] = namePartial; room == 0 {
				break
			}
			if dst = append(append(dst, byte(n)|partCut), p[:n]...); n >= printLen {
				*(*[printLen]byte)(dst[len(dst)-printLen:]) = Fingerprint(secret, p)
			}
			continue
		}
		dst = append(append(dst, byte(n)), p...)
	}
	return dst
}

// longestPart returns the longest size of a part so that all of them fit into room, each after its length.
// Short ones stay whole, so that no address hides behind a long path.
func longestPart(parts [][]byte, room int) (most int) {
	left, longer := room-len(parts), len(parts)
	for longer > 0 && left >= longer {
		most += left / longer
		left, longer = room-len(parts), 0
		for _, p := range parts {
			if left -= min(len(p), most); len(p) > most {
				longer++
			}
		}
	}
	return most
}

// Prefixes are the prefix lengths by which a rule groups addresses.
type Prefixes struct{ Bits4, Bits6 uint8 }

// Prefix returns the prefix of a name, if its client is an address.
func (g Prefixes) Prefix(name []byte) (netip.Prefix, bool) {
	if len(name) == 0 {
		return netip.Prefix{}, false
	}
	switch kind, name := name[0], name[1:]; {
	case kind == nameAddr4 && len(name) == 4:
		return netip.PrefixFrom(netip.AddrFrom4([4]byte(name)), int(g.Bits4)), true
	case kind == nameAddr6 && len(name) == 8, kind == nameAddr16 && len(name) == 16:
		var b [16]byte
		copy(b[:], name)
		return netip.PrefixFrom(netip.AddrFrom16(b), int(g.Bits6)), true
	}
	return netip.Prefix{}, false
}

// Parse splits a name into the prefix that groups its address or, with the zero Prefix, the parts of its key,
// which refer to name. If one was cut, later ones may be missing. ok is false if name is invalid.
func (g Prefixes) Parse(name []byte) (p netip.Prefix, parts []Part, ok bool) {
	if p, ok = g.Prefix(name); ok || len(name) == 0 || name[0] != nameParts && name[0] != namePartial {
		return p, nil, ok
	}
	kind, marked := name[0], false
	for name = name[1:]; len(name) > 0; {
		n, cut := int(name[0]&^partCut), name[0]&partCut != 0
		if name = name[1:]; n > len(name) || cut && kind != namePartial {
			return p, nil, false
		}
		part := Part{Bytes: name[:n:n], Cut: cut}
		if cut && n >= printLen {
			part.Bytes, part.Print = name[:n-printLen:n-printLen], name[n-printLen:n]
		}
		parts, name = append(parts, part), name[n:]
		marked = marked || cut
	}
	if kind == namePartial && !marked {
		if len(parts) == 0 {
			return p, nil, false
		}
		parts[len(parts)-1].Cut = true
	}
	return p, parts, true
}

// Text formats a name, with an ellipsis after each cut part. An invalid name is quoted.
func (g Prefixes) Text(name []byte) string {
	p, parts, ok := g.Parse(name)
	switch {
	case !ok:
		return "?" + strconv.QuoteToASCII(string(name))
	case p.IsValid():
		return Prefix(p)
	case len(parts) == 0:
		return Join([]string{""})
	}
	var b Builder
	for i := range parts {
		if part := string(parts[i].Bytes); parts[i].Cut {
			b.AddCut(part)
		} else {
			b.Add(part, len(part))
		}
	}
	return b.Text()
}

// Fingerprint is a keyed hash of a text, by which people can distinguish clients whose keys they must not
// read. It is cryptographic, so without the secret nobody learns the text from it.
func Fingerprint(secret *[32]byte, text []byte) (sum [8]byte) {
	h := sha256.New()
	h.Write(fingerprintDomain)
	h.Write(secret[:])
	h.Write(text)
	var all [sha256.Size]byte
	copy(sum[:], h.Sum(all[:0]))
	return sum
}

// fingerprintDomain separates fingerprints from everything else keyed with the secret.
var fingerprintDomain = []byte("fastlimit fingerprint v1")
