package expel

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// attribute is one attribute of a route as the kernel has it.
func attribute(typ uint16, value ...byte) []byte {
	n := unix.SizeofRtAttr + len(value)
	b := make([]byte, align(n))
	binary.NativeEndian.PutUint16(b, uint16(n))
	binary.NativeEndian.PutUint16(b[2:], typ)
	copy(b[unix.SizeofRtAttr:], value)
	return b
}

// hop is one of several next hops of a route.
func hop(attributes []byte) []byte {
	b := make([]byte, unix.SizeofRtNexthop, unix.SizeofRtNexthop+len(attributes))
	binary.NativeEndian.PutUint16(b, uint16(cap(b)))
	return append(b, attributes...)
}

func TestNextHops(t *testing.T) {
	t.Parallel()
	v6 := netip.MustParseAddr("fe80::1").As16()
	one := attribute(unix.RTA_GATEWAY, 192, 0, 2, 1)
	for name, tc := range map[string]struct {
		attributes []byte
		want       string
	}{
		"none":           {attribute(unix.RTA_OIF, 1, 0, 0, 0), ""},
		"one":            {slices.Concat(attribute(unix.RTA_DST, 10, 0, 0, 0), one), "192.0.2.1"},
		"IPv6":           {attribute(unix.RTA_GATEWAY, v6[:]...), "fe80::1"},
		"another family": {attribute(unix.RTA_VIA, append([]byte{unix.AF_INET6, 0}, v6[:]...)...), "fe80::1"},
		"several":        {attribute(unix.RTA_MULTIPATH, slices.Concat(hop(one), hop(nil), hop(attribute(unix.RTA_GATEWAY, 192, 0, 2, 2)))...), "192.0.2.1 192.0.2.2"},
		"cut off":        {slices.Concat(one, one[:6]), "192.0.2.1"},
		"a bad length":   {slices.Concat(one, []byte{1, 0, 5, 0}), "192.0.2.1"},
		"a bad hop":      {attribute(unix.RTA_MULTIPATH, 1, 0, 0, 0, 0, 0, 0, 0), ""},
		"an odd address": {attribute(unix.RTA_GATEWAY, 1, 2, 3), ""},
	} {
		var got []string
		for _, a := range nextHops(tc.attributes) {
			got = append(got, a.String())
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: %v, want %q", name, got, tc.want)
		}
	}
}

func FuzzNextHops(f *testing.F) {
	f.Add(attribute(unix.RTA_MULTIPATH, hop(attribute(unix.RTA_GATEWAY, 192, 0, 2, 1))...))
	f.Add([]byte{4, 0, 9, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, a := range nextHops(b) {
			if !a.IsValid() {
				t.Error("an invalid address")
			}
		}
	})
}

// This machine is what the kernel's own table and Go say.
func TestThisMachine(t *testing.T) {
	t.Parallel()
	m, err := ThisMachine()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(m.Own, netip.MustParseAddr("127.0.0.1")) || !overlaps(m.Loopback, netip.MustParsePrefix("::1/128")) || !overlaps(m.Loopback, netip.MustParsePrefix("127.9.0.0/16")) {
		t.Errorf("%+v", m)
	}
	table, err := os.ReadFile("/proc/net/route")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) < 3 || len(f[2]) != 8 || f[2] == "00000000" {
			continue
		}
		ip := net.IP{0, 0, 0, 0}
		for i := range ip { // a word of this machine
			n := f[2][6-2*i : 8-2*i]
			ip[i] = byte(strings.IndexByte("0123456789ABCDEF", n[0])<<4 | strings.IndexByte("0123456789ABCDEF", n[1]))
		}
		if a, _ := netip.AddrFromSlice(ip); !slices.Contains(m.Gateways, a) {
			t.Errorf("%v is missing in %v", a, m.Gateways)
		}
	}
}
