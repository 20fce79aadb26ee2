package proxyheader

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/pires/go-proxyproto"
)

// v2 is a header of version 2 by its bytes: command, family, what follows.
func v2(command, family byte, payload string) string {
	b := append([]byte(v2Signature), 0x20|command, family)
	return string(binary.BigEndian.AppendUint16(b, uint16(len(payload)))) + payload
}

const (
	tcp4 = "\xc0\x00\x02\x01\x0a\x00\x00\x01\x30\x39\x00\x50" // 192.0.2.1 to 10.0.0.1
	tcp6 = "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01" +
		"\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x30\x39\x00\x50"
	mapped = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xc0\x00\x02\x07" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x0a\x00\x00\x01\x30\x39\x00\x50"
)

// withSum ends a header with a checksum of its own, or a wrong one.
func withSum(family byte, payload string, wrong uint32) string {
	h := []byte(v2(1, family, payload+"\x03\x00\x04\x00\x00\x00\x00"))
	binary.BigEndian.PutUint32(h[len(h)-4:], crc32.Checksum(h, crc32.MakeTable(crc32.Castagnoli))^wrong)
	return string(h)
}

// vectors are headers and what they mean: an address, "" for the peer of the connection,
// or an error.
var vectors = []struct {
	header, client string
	err            error
}{
	{"PROXY TCP4 192.0.2.1 10.0.0.1 12345 80\r\n", "192.0.2.1", nil},
	{"PROXY TCP6 2001:db8::1 2001:db8::2 12345 80\r\n", "2001:db8::1", nil},
	{"PROXY TCP6 ::ffff:192.0.2.7 ::ffff:10.0.0.1 1 80\r\n", "192.0.2.7", nil},
	{"PROXY UNKNOWN\r\n", "", nil},
	{"PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n", "", nil},
	{"PROXY TCP4 192.0.2.1 10.0.0.1 12345 80\n", "", ErrMalformed},
	{"PROXY TCP4 192.0.2.1  10.0.0.1 12345 80\r\n", "", ErrMalformed},
	{"PROXY TCP4 192.0.2.1 10.0.0.1 12345 80 \r\n", "", ErrMalformed},
	{"PROXY TCP4 192.0.2.01 10.0.0.1 12345 80\r\n", "", ErrMalformed},
	{"PROXY TCP4 192.0.2.1 10.0.0.1 012345 80\r\n", "", ErrMalformed},
	{"PROXY TCP4 192.0.2.1 10.0.0.1 65536 80\r\n", "", ErrMalformed},
	{"PROXY TCP4 2001:db8::1 10.0.0.1 12345 80\r\n", "", ErrMalformed},
	{"PROXY TCP6 fe80::1%eth0 2001:db8::2 12345 80\r\n", "", ErrMalformed},
	{"PROXY tcp4 192.0.2.1 10.0.0.1 12345 80\r\n", "", ErrMalformed},
	{"PROXY UDP4 192.0.2.1 10.0.0.1 12345 80\r\n", "", ErrMalformed},
	{"PROXY \r\n", "", ErrMalformed},
	{"PROXY UNKNOWN " + strings.Repeat("x", 94) + "\r\n", "", ErrMalformed},
	{"proxy TCP4 192.0.2.1 10.0.0.1 12345 80\r\n", "", ErrMissing},
	{"PROXYX TCP4 192.0.2.1 10.0.0.1 12345 80\r\n", "", ErrMissing},
	{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "", ErrMissing},
	{"\x16\x03\x01\x00\x05hello", "", ErrMissing},

	{v2(1, 0x11, tcp4), "192.0.2.1", nil},
	{v2(1, 0x21, tcp6), "2001:db8::1", nil},
	{v2(1, 0x21, mapped), "192.0.2.7", nil},
	{v2(0, 0, ""), "", nil},
	{v2(0, 0x11, tcp4), "", nil},
	{v2(0, 0, "\x04\x00\x01x"), "", nil},
	{v2(1, 0, ""), "", ErrMalformed}, // UNSPEC: the specification leaves it to us
	{v2(1, 0x12, tcp4), "", ErrAddress},
	{v2(1, 0x31, strings.Repeat("/", 216)), "", ErrAddress},
	{v2(1, 0x13, tcp4), "", ErrMalformed},
	{v2(1, 0x41, tcp4), "", ErrMalformed},
	{v2(2, 0x11, tcp4), "", ErrMalformed},
	{strings.Replace(v2(1, 0x11, tcp4), "\x21", "\x11", 1), "", ErrMalformed}, // version 1
	{v2(1, 0x11, tcp4[:11]), "", ErrMalformed},
	{v2(1, 0x11, tcp4+"\x02\x00\x07a.test"), "", ErrMalformed}, // ends within a value
	{v2(1, 0x11, tcp4+"\x02\x00"), "", ErrMalformed},
	{v2(1, 0x11, tcp4+"\x02\x00\x06a.test\x04\x00\x03xyz\xe0\x00\x00"), "192.0.2.1", nil},
	{v2(1, 0x11, tcp4+"\xee\x0f\xf1"+strings.Repeat("x", 4081)), "192.0.2.1", nil}, // 4 KiB
	{v2(1, 0x11, tcp4+"\xee\x0f\xf2"+strings.Repeat("x", 4082)), "", ErrTooLong},
	{withSum(0x11, tcp4, 0), "192.0.2.1", nil},
	{withSum(0x21, tcp6+"\x02\x00\x01a", 0), "2001:db8::1", nil},
	{withSum(0x11, tcp4, 1), "", ErrChecksum},
	{v2(1, 0x11, tcp4+"\x03\x00\x03abc"), "", ErrMalformed},
}

// read finds a header in data as it arrives, byte by byte, and parses it.
func read(data string) (client netip.Addr, length int, err error) {
	for i := 1; i <= len(data); i++ {
		n, err := Extent([]byte(data[:i]))
		switch {
		case err != nil:
			return netip.Addr{}, 0, err
		case n == 0 && i >= v1Most:
			return netip.Addr{}, 0, errors.New("it takes more bytes than a header has")
		case n == i:
			client, err := Parse([]byte(data[:n]))
			return client, n, err
		}
	}
	return netip.Addr{}, 0, errIncomplete
}

var errIncomplete = errors.New("incomplete")

func TestVectors(t *testing.T) {
	t.Parallel()
	for _, v := range vectors {
		const behind = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
		client, n, err := read(v.header + behind)
		want, _ := netip.ParseAddr(v.client)
		if !errors.Is(err, v.err) || client != want || err == nil && n != len(v.header) {
			t.Errorf("%.60q: %v, %d of %d bytes, %v; want %q, %v", v.header, client, n, len(v.header), err, v.client, v.err)
		}
		if err == nil && !Is([]byte(v.header)) {
			t.Errorf("%.60q is not recognized", v.header)
		}
	}
}

// What is a header to us is one to the library's own reader, of the same length and with
// the same client; what is none to us is none to it, or one of those that we refuse.
func FuzzHeader(f *testing.F) {
	for _, v := range vectors {
		f.Add([]byte(v.header + "GET / HTTP/1.1\r\n\r\n"))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		client, n, err := read(string(data))
		r := bufio.NewReaderSize(bytes.NewReader(data), max(len(data), 1))
		theirs, failed := proxyproto.Read(r)
		if err != nil {
			if failed == nil && !errors.Is(err, ErrAddress) && !errors.Is(err, ErrChecksum) && !errors.Is(err, ErrTooLong) &&
				!(theirs.Version == 2 && errors.Is(err, ErrMalformed)) {
				t.Fatalf("%q: %v, but the library reads %+v", data, err, theirs)
			}
			return
		}
		if failed != nil || len(data)-r.Buffered() != n {
			t.Fatalf("%q: %d bytes are a header; the library: %v, %d", data, n, failed, len(data)-r.Buffered())
		}
		if client.IsValid() {
			if tcp := theirs.SourceAddr.(*net.TCPAddr).AddrPort().Addr().Unmap(); tcp != client { // others are refused
				t.Fatalf("%q: %v, the library: %v", data, client, tcp)
			}
		} else if theirs.Command != proxyproto.LOCAL {
			t.Fatalf("%q: no client, the library: %+v", data, theirs)
		}
	})
}
