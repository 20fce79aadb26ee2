package lists

import (
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/policy"
)

func TestParse(t *testing.T) {
	t.Parallel()
	text := "\ufeff# published at …\n\n192.0.2.7\n\t10.0.0.0/8   # the office\r\n2001:db8::/32 ; SBL1\n::ffff:198.51.100.0/120\n::1"
	got, wrong := Parse([]byte(text))
	if want := "[192.0.2.7/32 10.0.0.0/8 2001:db8::/32 198.51.100.0/24 ::1/128]"; fmt.Sprint(got) != want || len(wrong) > 0 {
		t.Errorf("%v %v, want %s", got, wrong, want)
	}
	if got, wrong := Parse([]byte(" \n# nobody\n")); len(got) != 0 || len(wrong) != 0 {
		t.Errorf("an empty file: %v %v", got, wrong)
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	const write = "write for example 192.0.2.0/24, 2001:db8::/32 or 192.0.2.7"
	for text, want := range map[string]string{
		"10.0.0.0/8\n  10.0.0.300\n":       `2:3: "10.0.0.300" is neither an address nor a prefix; ` + write,
		"10.0.0.0/33":                      `1:1: "10.0.0.0/33" is not a prefix; ` + write,
		"\ufeff10.1.2.3/8":                 `1:1: 10.1.2.3/8 has bits set beyond its length; write 10.0.0.0/8, or 10.1.2.3 for the one address`,
		"192.0.2.1 192.0.2.2":              `1:1: "192.0.2.1 192.0.2.2" is neither an address nor a prefix; ` + wantEntry,
		"192.0.2.1-192.0.2.9":              `1:1: "192.0.2.1-192.0.2.9" is neither an address nor a prefix; ` + write,
		"fe80::1%eth0":                     `1:1: "fe80::1%eth0" has a zone; write fe80::1`,
		"::ffff:0:0/95":                    `1:1: ::ffff:0:0/95 is wider than the IPv4-mapped addresses; write 0.0.0.0/0 for all of IPv4`,
		"\x00\x1b[2J":                      `1:1: "\x00\x1b[2J" is neither an address nor a prefix; ` + write,
		"<html>" + strings.Repeat("a", 99): `1:1: "<html>` + strings.Repeat("a", 54) + `…" is neither an address nor a prefix; ` + write,
	} {
		got, wrong := Parse([]byte(text))
		if len(got) != 0 || len(wrong) != 1 || wrong[0].Error() != want {
			t.Errorf("%q: %v %v\nwant %s", text, got, wrong, want)
		}
	}
	if _, wrong := Parse([]byte(strings.Repeat("x\n10.0.0.0/8\n", 50))); len(wrong) != maxMistakes || wrong[9].Line != 19 {
		t.Errorf("%d mistakes, the last %v", len(wrong), wrong[len(wrong)-1])
	}
	if got, wrong := Parse([]byte(strings.Repeat("::1\n", MaxEntries+1))); got != nil || len(wrong) != 1 || wrong[0].Line != MaxEntries+1 {
		t.Errorf("%d entries and %v", len(got), wrong)
	}
}

// FuzzParse: accepted lines are returned as written; rejected ones have a position in the file.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"10.0.0.0/8 # x\n::1", "a\r\n;\n\n1.2.3.4/31", "\ufeff1.1.1.1", "::ffff:1.2.3.4/128"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		all, wrong := Parse(data)
		if len(all) > 0 && len(wrong) > 0 || len(wrong) > maxMistakes {
			t.Fatalf("%d entries beside %d mistakes", len(all), len(wrong))
		}
		lines := strings.Count(string(data), "\n") + 1
		for _, m := range wrong {
			if m.Line < 1 || m.Line > lines || m.Column < 1 || m.Problem == "" || m.Fix == "" || strings.ContainsAny(m.Error(), "\r\n\x1b") {
				t.Fatalf("%+v", m)
			}
		}
		var again strings.Builder
		for _, p := range all {
			if !p.IsValid() || p != p.Masked() || p.Addr().Is4In6() {
				t.Fatalf("%v", p)
			}
			fmt.Fprintln(&again, p)
		}
		if back, _ := Parse([]byte(again.String())); fmt.Sprint(back) != fmt.Sprint(all) {
			t.Fatalf("%v, written back %v", all, back)
		}
	})
}

// spread are n prefixes that share little, which take the most memory.
func spread(n int, v6 bool) (all []netip.Prefix, text string) {
	var b strings.Builder
	for i := range uint32(n) {
		h := i * 2654435761
		a := netip.AddrFrom4([4]byte{byte(h >> 24), byte(h >> 16), byte(h >> 8), byte(h)})
		if v6 {
			a = netip.AddrFrom16([16]byte{0x20, 1, byte(h >> 24), byte(h >> 16), byte(h >> 8), byte(h), byte(i), byte(i >> 8), 15: 1})
		}
		all = append(all, netip.PrefixFrom(a, a.BitLen()))
		fmt.Fprintln(&b, a)
	}
	return all, b.String()
}

// What validate says that an entry takes is not exceeded, while lists are replaced: two
// sets of entries, all of them once more in a row, and two tables.
func TestEntryBytes(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		const n = 50_000
		heap := func() uint64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		before := heap()
		all, _ := spread(n, v6)
		l, err := policy.NewLists(nil, all)
		if err != nil {
			t.Fatal(err)
		}
		each := float64(heap()-before) / n
		t.Logf("IPv6 %v: %.0f bytes for each entry and its place in the table", v6, each)
		if most := 2*each + 32 + 16; most > EntryBytes {
			t.Errorf("IPv6 %v: up to %.0f bytes for an entry, more than %d", v6, most, EntryBytes)
		}
		runtime.KeepAlive(all)
		runtime.KeepAlive(l)
	}
}

// BenchmarkLoad is what a list of 100,000 entries takes to read and compile.
func BenchmarkLoad(b *testing.B) {
	for name, v6 := range map[string]bool{"IPv4": false, "IPv6": true} {
		_, text := spread(100_000, v6)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				all, wrong := Parse([]byte(text))
				if len(wrong) > 0 {
					b.Fatal(wrong)
				}
				if _, err := policy.NewLists(nil, all); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
