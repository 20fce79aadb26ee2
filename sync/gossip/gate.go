package gossip

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"io"
	"slices"
)

// The frames of memberlist v0.7.0:
//
//	packet: label header, sealed message; authenticated along with it: the label
//	stream: label header (of the side that dialed only), encrypted, length (4
//	        bytes, big-endian), sealed message; authenticated along with it:
//	        encrypted, length, the label
//	label header:   labelType, length (1 byte), the cluster's name
//	sealed message: version (1 byte), nonce (12), AES-GCM ciphertext, tag (16)
//
// The version is not authenticated. For version 0 memberlist strips padding, and
// panics on a message that has none, so the gate only lets version 1 through.
const (
	labelType     = 244
	encryptedType = 10
	sealVersion   = 1
	nonceSize     = 12
	sealOverhead  = 1 + nonceSize + 16
	frameHead     = 1 + 4 // encrypted, length
)

// gate passes only authentic messages of known types to memberlist, unchanged. It is needed
// because memberlist (v0.7.0) acts on unauthenticated bytes: it panics on some of them, and
// sends encrypted error messages to strangers. Safe for concurrent use.
type gate struct {
	aead   cipher.AEAD
	name   []byte // of the cluster
	header []byte // the label header
	most   int    // bytes of a sealed message on a stream
}

// newGate returns the gate of a cluster of at most maxNodes nodes.
func newGate(name, secret string, maxNodes int) *gate {
	block, err := aes.NewCipher(gossipKey(name, secret))
	if err != nil {
		panic("BUG: gossip: AES-256: " + err.Error())
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic("BUG: gossip: GCM: " + err.Error())
	}
	return &gate{
		aead: aead, name: []byte(name), header: append([]byte{labelType, byte(len(name))}, name...),
		most: streamBase + maxNodes*streamPerNode,
	}
}

// packet checks a UDP packet and decrypts its message into buf, which must have
// room for it. The reason is accepted if the packet may pass. The label is compared
// first because that is cheap: see BenchmarkGate.
func (g *gate) packet(b, buf []byte) (plain []byte, reason string) {
	if reason := g.label(b); reason != accepted {
		return nil, reason
	}
	b = b[len(g.header):]
	if len(b) <= sealOverhead {
		return nil, reasonTruncated
	}
	plain, ok := g.open(b, buf, g.name)
	if !ok {
		return nil, reasonKey
	}
	return plain, checkPacket(plain)
}

// label returns what is wrong with the label header at the start of b.
func (g *gate) label(b []byte) (reason string) {
	switch {
	case len(b) == 0:
		return reasonTruncated
	case b[0] != labelType:
		return reasonCluster
	case len(b) == 1:
		return reasonTruncated
	case b[1] == 0:
		return reasonMalformed
	case len(b) < 2+int(b[1]):
		return reasonTruncated
	case !bytes.HasPrefix(b, g.header):
		return reasonCluster
	}
	return accepted
}

// open decrypts a sealed message into buf. data is authenticated along with it.
func (g *gate) open(sealed, buf, data []byte) (plain []byte, ok bool) {
	if len(sealed) < sealOverhead || sealed[0] != sealVersion {
		return nil, false
	}
	plain, err := g.aead.Open(buf[:0], sealed[1:1+nonceSize], sealed[1+nonceSize:], data)
	return plain, err == nil
}

// readOpening reads the label header and the message of a stream that another node
// opened.
func (g *gate) readOpening(r io.Reader) (frame, plain []byte, reason string) {
	head := make([]byte, 2, 2+255)
	if n, err := io.ReadFull(r, head); err != nil {
		return nil, nil, g.label(head[:n])
	}
	if head[0] == labelType {
		n, _ := io.ReadFull(r, head[2:2+int(head[1])])
		head = head[:2+n]
	}
	if reason := g.label(head); reason != accepted {
		return nil, nil, reason
	}
	return g.readFrame(r)
}

// readFrame reads one encrypted message of a stream. It allocates as bytes arrive,
// not by the length that a stranger claims.
func (g *gate) readFrame(r io.Reader) (frame, plain []byte, reason string) {
	var head [frameHead]byte
	n, err := io.ReadFull(r, head[:])
	if n > 0 && head[0] != encryptedType {
		return nil, nil, reasonKey
	}
	if err != nil {
		return nil, nil, reasonTruncated
	}
	length := int64(binary.BigEndian.Uint32(head[1:]))
	switch {
	case length <= sealOverhead:
		return nil, nil, reasonTruncated
	case length > int64(g.most):
		return nil, nil, reasonStreams
	}
	var buf bytes.Buffer
	buf.Write(head[:])
	if _, err := io.CopyN(&buf, r, length); err != nil {
		return nil, nil, reasonTruncated
	}
	frame = buf.Bytes()
	plain, ok := g.open(frame[frameHead:], nil, append(head[:], g.name...))
	if !ok {
		return nil, nil, reasonKey
	}
	return frame, plain, accepted
}

// seal encrypts a message into a frame for a stream.
func (g *gate) seal(plain []byte) []byte {
	frame := binary.BigEndian.AppendUint32([]byte{encryptedType}, uint32(sealOverhead+len(plain))) // messages of this package are short
	data := slices.Concat(frame, g.name)
	nonce := make([]byte, nonceSize)
	rand.Read(nonce) // never fails
	frame = append(append(frame, sealVersion), nonce...)
	return g.aead.Seal(frame, nonce, plain, data)
}
