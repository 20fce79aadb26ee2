// Package proxyheader reads the header of the PROXY protocol, versions 1 and 2
// (https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt), with which a balancer names the client of a
// connection. It reads bytes, not connections: the caller knows whether its peer may send one.
//
// pires/go-proxyproto parses. Its own reader refuses a header that arrives in two pieces, accepts any number
// of bytes as addresses, and ignores the checksum; so this package finds the end of a header, bounds it, and
// checks what follows the addresses.
package proxyheader

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"net"
	"net/netip"

	"github.com/pires/go-proxyproto"
)

// MaxBytes is the longest header. Version 2 would allow 64 KiB of extensions; a client certificate, the
// largest one in use, has 2 KiB.
const MaxBytes = v2Prefix + 4<<10

// The errors of a header. They say nothing of its bytes.
var (
	ErrMissing   = errors.New("the connection does not begin with a PROXY header")
	ErrMalformed = errors.New("malformed PROXY header")
	ErrTooLong   = errors.New("PROXY header above 4 KiB")
	ErrAddress   = errors.New("the PROXY header names a client that is not a TCP peer")
	ErrChecksum  = errors.New("wrong checksum in the PROXY header")
)

const (
	v1Signature = "PROXY "
	v1Most      = 107
	v2Signature = "\r\n\r\n\x00\r\nQUIT\n"
	v2Prefix    = 16
)

// Extent returns the length of the header at the start of data, which may be longer than data. 0 means that
// more bytes are needed to know; data then has fewer than 107.
func Extent(data []byte) (int, error) {
	switch {
	case begins(data, v1Signature):
		if end := bytes.IndexByte(data[:min(len(data), v1Most)], '\n'); end >= 0 {
			return end + 1, nil
		}
		if len(data) >= v1Most {
			return 0, ErrMalformed
		}
		return 0, nil
	case begins(data, v2Signature):
		if len(data) < v2Prefix {
			return 0, nil
		}
		n := v2Prefix + int(binary.BigEndian.Uint16(data[14:]))
		if n > MaxBytes {
			return 0, ErrTooLong
		}
		return n, nil
	}
	return 0, ErrMissing
}

// begins reports whether data may begin with the signature, as far as it goes.
func begins(data []byte, signature string) bool {
	n := min(len(data), len(signature))
	return string(data[:n]) == signature[:n]
}

// Is reports whether data begins with a signature.
func Is(data []byte) bool {
	return bytes.HasPrefix(data, []byte(v1Signature)) || bytes.HasPrefix(data, []byte(v2Signature))
}

// Parse returns the client named by a whole header, unmapped. It is invalid if the proxy speaks for itself
// (LOCAL) or does not know (UNKNOWN): then use the peer of the connection.
func Parse(header []byte) (client netip.Addr, err error) {
	r := bufio.NewReaderSize(bytes.NewReader(header), len(header))
	h, err := proxyproto.Read(r)
	if err != nil || r.Buffered() > 0 {
		return netip.Addr{}, ErrMalformed
	}
	if h.Command == proxyproto.LOCAL {
		return netip.Addr{}, nil
	}
	tcp, ok := h.SourceAddr.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}, ErrAddress
	}
	if h.Version == 2 {
		if err := checkExtensions(header, v2Prefix+addressBytes[header[13]>>4&3]); err != nil {
			return netip.Addr{}, err
		}
	}
	client, _ = netip.AddrFromSlice(tcp.IP)
	return client.Unmap(), nil
}

// addressBytes is the length of the addresses by family.
var addressBytes = [4]int{0, 12, 36, 216}

const (
	tlvHead  = 3
	typeCRC  = 0x03
	crcBytes = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checkExtensions checks what follows the addresses. A checksum covers the whole header with zeros in its
// place.
func checkExtensions(header []byte, at int) error {
	for at < len(header) {
		rest := header[at:]
		if len(rest) < tlvHead {
			return ErrMalformed
		}
		n := tlvHead + int(binary.BigEndian.Uint16(rest[1:]))
		if n > len(rest) {
			return ErrMalformed
		}
		if rest[0] == typeCRC {
			if n != tlvHead+crcBytes {
				return ErrMalformed
			}
			zeroed := bytes.Clone(header)
			clear(zeroed[at+tlvHead : at+n])
			if crc32.Checksum(zeroed, castagnoli) != binary.BigEndian.Uint32(rest[tlvHead:]) {
				return ErrChecksum
			}
		}
		at += n
	}
	return nil
}
