package policy

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseNode(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"192.0.2.1":                "192.0.2.1",
		" \t192.0.2.1\t ":          "192.0.2.1", //nolint:gocritic // the blanks are what is tested
		`"192.0.2.1"`:              "192.0.2.1",
		"192.0.2.1:0":              "192.0.2.1",
		"192.0.2.1:65535":          "192.0.2.1",
		"192.0.2.1:_p-._0":         "192.0.2.1",
		"2001:DB8::1":              "2001:db8::1",
		"[2001:db8::1]":            "2001:db8::1",
		"[2001:db8::1]:443":        "2001:db8::1",
		"[fe80::1%eth0]:443":       "fe80::1",
		"fe80::1%25eth0":           "fe80::1",
		"::ffff:192.0.2.1":         "192.0.2.1",
		"[::ffff:192.0.2.1%x]:443": "192.0.2.1",
		"::1":                      "::1",
	} {
		if got, ok := parseNode([]byte(in)); !ok || got.String() != want {
			t.Errorf("parseNode(%q) = %v, %v, want %s", in, got, ok, want)
		}
	}
	for _, in := range []string{
		"", " ", `""`, `"`, "unknown", "_hidden", "localhost", "0.0.0.0", "::", "[::]:80", "::ffff:0.0.0.0",
		"192.0.2", "192.0.2.256", "192.0.2.01", "192.0.2.1/24", "192.0.2.1%eth0", "192.0.2.1:", "192.0.2.1:x",
		"192.0.2.1:65536", "192.0.2.1:_", "192.0.2.1:_!", "192.0.2.1:80:80", "[192.0.2.1]", "[192.0.2.1]:80", "[2001:db8::1",
		"[2001:db8::1]443", "[2001:db8::1]:", "2001:db8::1]", "[]", "1:2:3:4:5:6:7:8:9", "192.0.2.1 192.0.2.2",
		"'192.0.2.1'", `\"192.0.2.1\"`, strings.Repeat("1", 100),
	} {
		if got, ok := parseNode([]byte(in)); ok {
			t.Errorf("parseNode(%q) = %v, want it refused", in, got)
		}
	}
}

// TestWalkOracle holds the walk against splitting everything first.
func TestWalkOracle(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.StringMatching(`[a," ]{0,6}`), 0, 4).Draw(t, "values")
		var want []string
		if len(values) > 0 {
			want = strings.Split(strings.Join(values, ","), ",")
		}
		w := newWalk(instances(values...), false)
		for i, element := range slices.Backward(want) {
			if got, ok := w.next(); !ok || string(got) != element {
				t.Fatalf("element %d of %q = %q, %v, want %q", i, values, got, ok, element)
			}
		}
		if got, ok := w.next(); ok {
			t.Fatalf("%q has one more element: %q", values, got)
		}
	})
}

// checkClient holds the result of Client against what it may be.
func checkClient(t *testing.T, id *Identity, peer netip.Addr, values [][]byte, text string) {
	t.Helper()
	got, from := id.Client(peer, values)
	if (from == ClientNoAddress) == identifies(peer.Unmap().WithZone("")) {
		t.Fatalf("Client(%v, %q): from %v", peer, values, from)
	}
	if from == ClientNoAddress {
		return
	}
	if got != got.Unmap().WithZone("") || !identifies(got) {
		t.Fatalf("Client(%v, %q) = %v: no plain address", peer, values, got)
	}
	if from != ClientFromHeader && got != peer.Unmap().WithZone("") && !id.Trusted(got) {
		t.Fatalf("Client(%v, %q) = %v, not named, want the peer or a proxy", peer, values, got)
	}
	if (from != ClientFromPeer) != id.Trusted(peer) {
		t.Fatalf("Client(%v, %q) = %v, %v: the header counts for trusted peers only", peer, values, got, from)
	}
	if from == ClientFromHeader && !holdsAddr(text, got) {
		t.Fatalf("Client(%v, %q) = %v, which is not in the header", peer, values, got)
	}
}

// holdsAddr reports whether any run of address characters in text is addr.
func holdsAddr(text string, addr netip.Addr) bool {
	runs := strings.FieldsFunc(text, func(r rune) bool { return !strings.ContainsRune("0123456789abcdefABCDEF:.", r) })
	for _, run := range runs {
		for start := range run {
			for end := start + 1; end <= len(run); end++ {
				if a, err := netip.ParseAddr(run[start:end]); err == nil && a.Unmap() == addr {
					return true
				}
			}
		}
	}
	return false
}

func FuzzClient(f *testing.F) {
	peer, stranger := []byte{10, 0, 0, 1}, []byte{192, 0, 2, 1}
	for _, s := range []string{
		"198.51.100.1", "1.1.1.1, 10.0.0.2", "a\n10.0.0.2", "[2001:db8::1]:80", "fe80::1%eth0", `"1.1.1.1"`,
		`for="[2001:db8::1]:80";by=x, for=10.0.0.2`, `for="\"", for=unknown`, "for=_x;for=1.1.1.1", ",,,", "0.0.0.0", "::ffff:1.1.1.1",
	} {
		f.Add(peer, s, false)
		f.Add(peer, s, true)
		f.Add(stranger, s, false)
	}
	f.Add(make([]byte, 16), "1.1.1.1", false)
	plainID := mustIdentity(f, "X-Forwarded-For", "10.0.0.0/8", "2001:db8::/32")
	forwardedID := mustIdentity(f, "Forwarded", "10.0.0.0/8", "2001:db8::/32")
	f.Fuzz(func(t *testing.T, rawPeer []byte, text string, forwarded bool) {
		id := plainID
		if forwarded {
			id = forwardedID
		}
		peer, _ := netip.AddrFromSlice(rawPeer)
		checkClient(t, id, peer, instances(strings.Split(text, "\n")...), text)
	})
}
