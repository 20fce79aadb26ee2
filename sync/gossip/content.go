package gossip

import (
	"encoding/binary"

	"github.com/hashicorp/go-msgpack/v2/codec"
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

// checkPacket tells whether the message of a packet is one that a node sends.
// It is authentic: this is about members that are broken or hostile.
func checkPacket(msg []byte) (reason string) {
	const checksum = 1 + 4
	if len(msg) > checksum && msg[0] == checkedType {
		msg = msg[checksum:]
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
		if length > len(parts) || checkMessage(parts[:length]) != quiet {
			return reasonMalformed
		}
		lengths, parts = lengths[2:], parts[length:]
	}
	return quiet
}

// checkMessage is checkPacket of a message that is not compound.
func checkMessage(msg []byte) (reason string) {
	if len(msg) == 0 {
		return reasonMalformed
	}
	switch msg[0] {
	case userType: // of this package
		return quiet
	case pingType, indirectType, ackType, suspectType, aliveType, deadType, nackType:
		if wellFormed(msg[1:], 1) {
			return quiet
		}
	}
	return reasonMalformed
}

// checkRequest is about the message of a stream that another opened.
func checkRequest(msg []byte) (reason string) {
	if len(msg) > 0 && (msg[0] == pushPullType && list(msg[1:]) || msg[0] == pingType && wellFormed(msg[1:], 1)) {
		return quiet
	}
	return reasonMalformed
}

// checkReply is about the message that comes back.
func checkReply(msg []byte) (reason string) {
	if len(msg) > 0 && (msg[0] == pushPullType && list(msg[1:]) || (msg[0] == ackType || msg[0] == errorType) && wellFormed(msg[1:], 1)) {
		return quiet
	}
	return reasonMalformed
}

// list tells whether b is a list of members to its end. A header without a list
// would have memberlist take memory for a million nodes.
func list(b []byte) bool {
	const least = 32 // bytes of a member; 100 and more are usual
	var header struct{ Nodes, UserStateLen int }
	d := codec.NewDecoderBytes(b, &codec.MsgpackHandle{})
	if d.Decode(&header) != nil || header.UserStateLen != 0 || header.Nodes < 0 || header.Nodes > len(b)/least {
		return false
	}
	return wellFormed(b, 1+header.Nodes)
}

// wellFormed tells whether b is n values of MessagePack and nothing else. Where
// it is not, memberlist's decoder takes memory for lengths of up to 4 GB that
// nothing follows; it reads from a stream and cannot know.
func wellFormed(b []byte, n int) bool {
	h := codec.MsgpackHandle{}
	h.Raw = true
	d := codec.NewDecoderBytes(b, &h)
	for range n {
		var value codec.Raw
		if d.Decode(&value) != nil {
			return false
		}
	}
	return d.NumBytesRead() == len(b)
}
