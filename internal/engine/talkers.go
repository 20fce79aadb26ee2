package engine

import (
	"encoding/binary"
	"net/netip"
	"strconv"

	"github.com/fastlimit/fastlimit/internal/keytext"
	"github.com/fastlimit/fastlimit/sketch"
)

// TopTalkers is fastlimit.Rule.TopTalkers.
func (r *Rule) TopTalkers() sketch.RuleTalkers {
	return sketch.RuleTalkers{Table: r.talkers, Rule: r.Name(), Unit: uint64(r.scale), Epoch: r.epoch, Text: r.talkerName}
}

// recordTalker counts a hit that got past the filter for its client, whose slot
// is -1 if it has none. Only with r.talkers.
func (r *Rule) recordTalker(key Key, slot int, n uint64) {
	if slot >= 0 {
		r.talkers.AddTo(slot, n)
		return
	}
	var name [sketch.TalkerNameBytes]byte
	r.talkers.Insert(key.digest(), n, r.appendTalkerName(name[:0], key))
}

// A talker name is a kind and the bytes of the address, or of the parts of a
// byte key as far as they fit, each part behind its length. It is copied for
// every client that gets a slot, so nothing is formatted here.
const (
	talkerAddr4   = '4' // 4 bytes
	talkerAddr6   = '6' // the upper 8 bytes
	talkerAddr16  = 'x' // all 16
	talkerParts   = 'p'
	talkerPartial = 'c' // parts, of which some were cut

	partCut  = 1 << 7 // in the length of a part that was cut; with none, the last was
	printLen = 8      // of its fingerprint, at the end of a part that was cut, if it fits
)

var _ [partCut - 1 - sketch.TalkerNameBytes]struct{} // a length has room beside partCut

// appendTalkerName appends the compact name of k within the capacity of dst,
// which is [sketch.TalkerNameBytes].
func (r *Rule) appendTalkerName(dst []byte, k Key) []byte {
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
	parts := k.texts()
	most := longestPart(parts, cap(dst)-len(dst))
	for _, p := range parts {
		n := min(len(p), most)
		if room := cap(dst) - len(dst); room == 0 || n < len(p) {
			if dst[0] = talkerPartial; room == 0 {
				break
			}
			if dst = append(append(dst, byte(n)|partCut), p[:n]...); n >= printLen {
				*(*[printLen]byte)(dst[len(dst)-printLen:]) = r.limiter.fingerprint(p)
			}
			continue
		}
		dst = append(append(dst, byte(n)), p...)
	}
	return dst
}

// longestPart is how much each part may have, so that all of them fit into so much room, each
// behind its length. Short ones stay whole, so that no address hides behind a long path.
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

// talkerName is the text of a name in [Rule.TopTalkers], or in that of a rule with
// the same Identity elsewhere: as [Rule.AppendKey] writes it, and with
// an ellipsis after each part that was cut. A name that is none is quoted as it is.
func (r *Rule) talkerName(name []byte) string {
	p, parts, ok := r.talkerKey(name)
	switch {
	case !ok:
		return "?" + strconv.QuoteToASCII(string(name))
	case p.IsValid():
		return string(keytext.AppendPrefix(nil, p))
	case len(parts) == 0:
		return keytext.Join([]string{""})
	}
	var b keytext.Builder
	for i := range parts {
		if part := string(parts[i].Bytes); parts[i].Cut {
			b.AddCut(part)
		} else {
			b.Add(part, len(part))
		}
	}
	return b.Text()
}

// talkerKey is [Rule.TalkerKey].
func (r *Rule) talkerKey(name []byte) (p netip.Prefix, parts []keytext.Part, ok bool) {
	if p, ok = r.TalkerPrefix(name); ok || len(name) == 0 || name[0] != talkerParts && name[0] != talkerPartial {
		return p, nil, ok
	}
	kind, marked := name[0], false
	for name = name[1:]; len(name) > 0; {
		n, cut := int(name[0]&^partCut), name[0]&partCut != 0
		if name = name[1:]; n > len(name) || cut && kind != talkerPartial {
			return p, nil, false
		}
		part := keytext.Part{Bytes: name[:n:n], Cut: cut}
		if cut && n >= printLen {
			part.Bytes, part.Print = name[:n-printLen:n-printLen], name[n-printLen:n]
		}
		parts, name = append(parts, part), name[n:]
		marked = marked || cut
	}
	if kind == talkerPartial && !marked {
		if len(parts) == 0 {
			return p, nil, false
		}
		parts[len(parts)-1].Cut = true
	}
	return p, parts, true
}
