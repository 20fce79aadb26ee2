package gossip

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/memberlist"
)

// Types of memberlist's messages that nodes send, in their first byte. All others
// are dropped, among them compressed messages, whose expansion nothing bounds, and
// user messages on streams.
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
	checkedType  = 12 // a checksum, then another message
	errorType    = 13 // an answer on streams
)

// typed decodes as memberlist does; asIs returns the bytes of values undecoded.
var typed, asIs = new(codec.MsgpackHandle), func() *codec.MsgpackHandle {
	h := new(codec.MsgpackHandle)
	h.Raw = true
	return h
}()

// The types into which memberlist v0.7.0 decodes messages. It does not export
// them. A message that does not decode is dropped and counted here; memberlist
// would drop it too, but only log it.
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

// versions are the versions that a node speaks of memberlist's protocol (minimum,
// maximum, current) and of its delegate's.
type versions []uint8

// ours reports whether memberlist on all nodes can talk to a node of these
// versions. It must not hear of any other: it rejects every list of members in
// which such a node appears, so one would stop all joins.
func (v versions) ours() bool {
	const version = memberlist.ProtocolVersion2Compatible
	return len(v) >= 6 && 1 <= v[0] && v[0] <= version && v[1] >= version && v[2] == version && v[3] == 0 && v[5] == 0
}

// checkPacket returns why the message of a packet is not one that a node sends. The
// message is authentic, so this is about members that are broken or hostile.
func checkPacket(msg []byte) (reason string) {
	msg, ok := withoutChecksum(msg)
	if !ok {
		return reasonMalformed
	}
	if len(msg) == 0 || msg[0] != compoundType {
		return inPackets.check(msg)
	}
	// compound: the number of parts (1 byte), the length of each (2 bytes), the
	// parts, none of which is compound itself.
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
		if reason := inPackets.check(parts[:length]); reason != accepted {
			return reason
		}
		lengths, parts = lengths[2:], parts[length:]
	}
	return accepted
}

// withoutChecksum verifies and removes the checksum, if there is one.
func withoutChecksum(msg []byte) (rest []byte, ok bool) {
	const checksum = 1 + 4
	if len(msg) < checksum || msg[0] != checkedType {
		return msg, true
	}
	rest = msg[checksum:]
	return rest, crc32.ChecksumIEEE(rest) == binary.BigEndian.Uint32(msg[1:])
}

// countsOf returns the payload of a message of counts that has passed checkPacket;
// ok is false for any other message. Counts are never part of a compound message.
func countsOf(msg []byte) (counts []byte, ok bool) {
	msg, _ = withoutChecksum(msg)
	if len(msg) == 0 || msg[0] != userType {
		return nil, false
	}
	return msg[1:], true
}

// checks are the message types allowed in one place, by number, each with the check
// of what follows the type.
type checks [errorType + 1]func(body []byte) (reason string)

var (
	inPackets = checks{
		pingType: decodes[ping], indirectType: decodes[indirectPing], ackType: decodes[ack], nackType: decodes[nack],
		suspectType: decodes[dead], deadType: decodes[dead], aliveType: checkAlive,
		userType: func([]byte) string { return accepted }, // of this module: delta parses it
	}
	// On streams, what the node that opened one sends, and what comes back.
	inRequests = checks{pushPullType: checkList, pingType: decodes[ping]}
	inReplies  = checks{pushPullType: checkList, ackType: decodes[ack], errorType: decodes[failure]}
)

func (c *checks) check(msg []byte) (reason string) {
	if len(msg) == 0 || int(msg[0]) >= len(c) || c[msg[0]] == nil {
		return reasonMalformed
	}
	return c[msg[0]](msg[1:])
}

func checkAlive(b []byte) (reason string) {
	var a alive
	switch {
	case !decode(b, &a):
		return reasonMalformed
	case !a.Vsn.ours():
		return reasonVersion
	}
	return accepted
}

// checkList returns what is wrong with a list of members. The number of nodes in
// its header is held against the bytes that follow, since memberlist allocates for
// that number before it reads them.
func checkList(b []byte) (reason string) {
	const least = 32 // bytes of a member; 100 or more in practice
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
	return accepted
}

// decodes checks that b is one value that decodes as a T.
func decodes[T any](b []byte) (reason string) {
	if !decode(b, new(T)) {
		return reasonMalformed
	}
	return accepted
}

func decode(b []byte, into any) bool {
	return wellFormed(b, 1) && codec.NewDecoderBytes(b, typed).Decode(into) == nil
}

// wellFormed reports whether b is n values of MessagePack and nothing else. It
// comes first because memberlist's decoder, which reads from a stream and cannot
// know what follows, allocates whatever length a value claims, up to 4 GB.
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
