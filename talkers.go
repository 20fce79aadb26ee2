package fastlimit

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"unsafe"

	"github.com/fastlimit/fastlimit/sketch"
)

// TopTalkers is the table of the clients that sent most to this rule, nil without
// [Config.TopTalkers]. Every hit that gets past the first-seen filter is
// counted in it, admitted or not; what the table of buckets denies is sampled at
// random under load. One owner ends its epochs, every [Rule.Epoch]: a
// toptalkers.Ranking, package server or package gossip. The limiter itself never
// does. To list top talkers use package toptalkers.
func (r *Rule) TopTalkers() *sketch.TopTalkers { return r.talkers }

// recordTalker counts a hit that got past the filter for its client, whose slot
// is -1 if it has none. Only with r.talkers.
func (r *Rule) recordTalker(key Key, slot int, n uint64) {
	if slot >= 0 {
		r.talkers.AddTo(slot, n)
		return
	}
	var name [sketch.TalkerNameBytes]byte
	r.talkers.Insert(key.digest(), n, appendTalkerName(name[:0], key))
}

// A talker name is a kind and the bytes of the address, or of the parts of a
// byte key as far as they fit, each part behind its length. It is copied for
// every client that gets a slot, so nothing is formatted here.
const (
	talkerAddr4   = '4' // 4 bytes
	talkerAddr6   = '6' // the upper 8 bytes
	talkerAddr16  = 'x' // all 16
	talkerParts   = 'p'
	talkerPartial = 'c' // parts, of which the last was cut
)

// appendTalkerName appends the compact name of k within the capacity of dst,
// which is [sketch.TalkerNameBytes].
func appendTalkerName(dst []byte, k Key) []byte {
	switch {
	case k.parts == &isAddr4:
		return binary.BigEndian.AppendUint32(append(dst, talkerAddr4), uint32(k.x))
	case k.parts == &isAddr6:
		return binary.BigEndian.AppendUint64(append(dst, talkerAddr6), k.x)
	case k.parts == &isAddr16:
		dst = binary.BigEndian.AppendUint64(append(dst, talkerAddr16), k.x)
		return binary.BigEndian.AppendUint64(dst, k.y)
	}
	dst = append(dst, talkerParts)
	if k.parts == nil {
		return dst
	}
	for _, p := range unsafe.Slice(k.parts, uint32(k.y)) {
		room := cap(dst) - len(dst) - 1
		if room < len(p) {
			dst[0] = talkerPartial
			if room >= 0 {
				dst = append(append(dst, byte(room)), p[:room]...)
			}
			break
		}
		dst = append(append(dst, byte(len(p))), p...)
	}
	return dst
}

// TalkerName is the text of a name in [Rule.TopTalkers], or in that of a rule with
// the same [Rule.Identity] elsewhere: as [Rule.AppendKey] writes it, and with
// an ellipsis where it was cut. A name that is none is quoted as it is.
func (r *Rule) TalkerName(name []byte) string {
	var b [80]byte
	if dst, ok := r.appendTalkerText(b[:0], name); ok {
		return string(dst)
	}
	return "?" + strconv.QuoteToASCII(string(name))
}

// TalkerKey takes a name of [Rule.TopTalkers] apart: it is the prefix by which the rule
// groups an address, or else, with the zero Prefix, the parts of [Rule.BytesKey], which
// refer to name. ok is false if the name was cut, or is none.
func (r *Rule) TalkerKey(name []byte) (p netip.Prefix, parts [][]byte, ok bool) {
	if p, ok = r.talkerPrefix(name); ok || len(name) == 0 || name[0] != talkerParts {
		return p, nil, ok
	}
	for name = name[1:]; len(name) > 0; {
		n := int(name[0])
		if name = name[1:]; n > len(name) {
			return p, nil, false
		}
		parts, name = append(parts, name[:n:n]), name[n:]
	}
	return p, parts, true
}

func (r *Rule) appendTalkerText(dst, name []byte) ([]byte, bool) {
	if len(name) == 0 {
		return nil, false
	}
	kind, name := name[0], name[1:]
	switch {
	case kind == talkerAddr4 && len(name) == 4:
		return appendPrefix(dst, netip.AddrFrom4([4]byte(name)), int(r.bits4)), true
	case kind == talkerAddr6 && len(name) == 8, kind == talkerAddr16 && len(name) == 16:
		var b [16]byte
		copy(b[:], name)
		return appendPrefix(dst, netip.AddrFrom16(b), int(r.bits6)), true
	case kind == talkerParts && len(name) == 0:
		return append(dst, `""`...), true
	case kind != talkerParts && kind != talkerPartial:
		return nil, false
	}
	for first := true; len(name) > 0; first = false {
		n := int(name[0])
		if name = name[1:]; n > len(name) {
			return nil, false
		}
		if !first {
			dst = append(dst, ',')
		}
		dst = strconv.AppendQuoteToASCII(dst, string(name[:n]))
		name = name[n:]
	}
	if kind == talkerPartial {
		dst = append(dst, "…"...)
	}
	return dst, true
}
