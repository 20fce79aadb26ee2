package gossip

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/memberlist"
)

// Kinds of memberlist's messages that nodes send: the first byte. The others
// are not let through: messages in compressed form, which may unfold without
// end, and large ones on streams.
const (
	pingType     = 0
	indirectType = 1
	ackType      = 2
	suspectType  = 3
	aliveType    = 4
	deadType     = 5
	pushPullType = 6 // a list of members, on streams
	compoundType = 7
	userType     = 8
	nackType     = 11
	checkedType  = 12 // with a checksum in front
	errorType    = 13 // on streams, an answer
)

// typed is how memberlist decodes, asIs leaves the bytes of values as they are.
var typed, asIs = new(codec.MsgpackHandle), func() *codec.MsgpackHandle {
	h := new(codec.MsgpackHandle)
	h.Raw = true
	return h
}()

// What memberlist v0.7.0 decodes messages into. One that does not fit is dropped
// here and counted: memberlist would drop it too, and only log it.
type (
	ping struct {
		SeqNo      uint32
		Node       string
		SourceAddr []byte
		SourcePort uint16
		SourceNode string
	}
	indirectPing struct {
		SeqNo      uint32
		Target     []byte
		Port       uint16
		Node       string
		Nack       bool
		SourceAddr []byte
		SourcePort uint16
		SourceNode string
	}
	ack struct {
		SeqNo   uint32
		Payload []byte
	}
	nack  struct{ SeqNo uint32 }
	alive struct {
		Incarnation uint32
		Node        string
		Addr        []byte
		Port        uint16
		Meta        []byte
		Vsn         versions
	}
	dead struct { // and suspect
		Incarnation uint32
		Node, From  string
	}
	listHeader struct {
		Nodes, UserStateLen int
		Join                bool
	}
	listed struct {
		Name        string
		Addr        []byte
		Port        uint16
		Meta        []byte
		Incarnation uint32
		State       int
		Vsn         versions
	}
	failure struct{ Error string }
)

// versions are those of memberlist's protocol that a node speaks (the least, the
// most, the present one), and of its delegate's.
type versions []uint8

// ours reports whether memberlist at this node, and at all others, can speak with
// a node of these versions. Of one that it cannot, it would refuse all lists of
// members.
func (v versions) ours() bool {
	const version = memberlist.ProtocolVersion2Compatible
	return len(v) >= 6 && 1 <= v[0] && v[0] <= version && v[1] >= version && v[2] == version && v[3] == 0 && v[5] == 0
}

// checkPacket returns why the message of a packet is not one that a node sends. It
// is authentic: this is about members that are broken or hostile.
func checkPacket(msg []byte) (reason string) {
	msg, ok := withoutChecksum(msg)
	if !ok {
		return reasonMalformed
	}
	if len(msg) == 0 || msg[0] != compoundType {
		return checkMessage(msg)
	}
	// compound: the number of parts, the length of each (2 bytes), the parts,
	// none of which is compound.
	if len(msg) < 2 {
		return reasonMalformed
	}
	n := int(msg[1])
	lengths, parts := msg[2:], msg[2:]
	if len(parts) < 2*n {
		return reasonMalformed
	}
	for parts = parts[2*n:]; n > 0; n-- {
		length := int(binary.BigEndian.Uint16(lengths))
		if length > len(parts) {
			return reasonMalformed
		}
		if reason := checkMessage(parts[:length]); reason != quiet {
			return reason
		}
		lengths, parts = lengths[2:], parts[length:]
	}
	return quiet
}

// withoutChecksum checks and removes the checksum, if there is one.
func withoutChecksum(msg []byte) (rest []byte, ok bool) {
	const checksum = 1 + 4
	if len(msg) < checksum || msg[0] != checkedType {
		return msg, true
	}
	rest = msg[checksum:]
	return rest, crc32.ChecksumIEEE(rest) == binary.BigEndian.Uint32(msg[1:])
}

// countsOf returns the counts in a message that has passed checkPacket and is
// nothing else; ok is false for any other message.
func countsOf(msg []byte) (counts []byte, ok bool) {
	msg, _ = withoutChecksum(msg)
	if len(msg) == 0 || msg[0] != userType {
		return nil, false
	}
	return msg[1:], true
}

// checkMessage is checkPacket of a message that is not compound.
func checkMessage(msg []byte) (reason string) {
	if len(msg) == 0 {
		return reasonMalformed
	}
	switch msg[0] {
	case userType: // of this package
		return quiet
	case pingType:
		return fits(msg, &ping{})
	case indirectType:
		return fits(msg, &indirectPing{})
	case ackType:
		return fits(msg, &ack{})
	case nackType:
		return fits(msg, &nack{})
	case suspectType, deadType:
		return fits(msg, &dead{})
	case aliveType:
		var a alive
		if reason := fits(msg, &a); reason != quiet {
			return reason
		}
		if !a.Vsn.ours() {
			return reasonVersion
		}
		return quiet
	}
	return reasonMalformed
}

// checkRequest is about the message of a stream that another opened.
func checkRequest(msg []byte) (reason string) {
	switch {
	case len(msg) > 0 && msg[0] == pushPullType:
		return checkList(msg[1:])
	case len(msg) > 0 && msg[0] == pingType:
		return fits(msg, &ping{})
	}
	return reasonMalformed
}

// checkReply is about the message that comes back.
func checkReply(msg []byte) (reason string) {
	switch {
	case len(msg) > 0 && msg[0] == pushPullType:
		return checkList(msg[1:])
	case len(msg) > 0 && msg[0] == ackType:
		return fits(msg, &ack{})
	case len(msg) > 0 && msg[0] == errorType:
		return fits(msg, &failure{})
	}
	return reasonMalformed
}

// checkList returns what is wrong with a list of members. A header without a list
// would have memberlist take memory for a million nodes.
func checkList(b []byte) (reason string) {
	const least = 32 // bytes of a member; 100 and more are usual
	var header listHeader
	d := codec.NewDecoderBytes(b, typed)
	if d.Decode(&header) != nil || header.UserStateLen != 0 ||
		header.Nodes < 0 || header.Nodes > len(b)/least || !wellFormed(b, 1+header.Nodes) {
		return reasonMalformed
	}
	for range header.Nodes {
		var n listed
		if d.Decode(&n) != nil {
			return reasonMalformed
		}
		if !n.Vsn.ours() {
			return reasonVersion
		}
	}
	return quiet
}

// fits returns what is wrong with a message that is to be of the type of into.
func fits(msg []byte, into any) (reason string) {
	if !wellFormed(msg[1:], 1) || codec.NewDecoderBytes(msg[1:], typed).Decode(into) != nil {
		return reasonMalformed
	}
	return quiet
}

// wellFormed reports whether b is n values of MessagePack and nothing else. Where
// it is not, memberlist's decoder takes memory for lengths of up to 4 GB that
// nothing follows; it reads from a stream and cannot know.
func wellFormed(b []byte, n int) bool {
	d := codec.NewDecoderBytes(b, asIs)
	for range n {
		var value codec.Raw
		if d.Decode(&value) != nil {
			return false
		}
	}
	return d.NumBytesRead() == len(b)
}
