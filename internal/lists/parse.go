package lists

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/fastlimit/fastlimit/internal/safetext"
)

// Bounds on lists. They are far above published lists, and keep a mistyped path from exhausting the machine's
// memory.
const (
	MaxFile    = 64 << 20  // bytes of a file
	MaxEntries = 1_000_000 // of both lists, in files and in the configuration
)

// EntryBytes is the most memory that an entry takes while the process runs, in bytes, including what is
// needed to replace it (TestEntryBytes).
const EntryBytes = 320

// Mistake is a line that is not an entry.
type Mistake struct {
	Line, Column int // from 1, in characters
	Problem, Fix string
}

// Error implements error.
func (m *Mistake) Error() string {
	return fmt.Sprintf("%d:%d: %s; %s", m.Line, m.Column, m.Problem, m.Fix)
}

// maxMistakes bounds the mistakes reported of one file. One with more is not a list of addresses.
const maxMistakes = 10

const wantEntry = "write one address or prefix on each line, for example 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32"

// Parse reads the content of a file. With mistakes, of which at most ten are returned, there are no entries.
func Parse(data []byte) ([]netip.Prefix, []Mistake) {
	text := strings.TrimPrefix(string(data), "\ufeff") // some editors begin a file with it
	all := make([]netip.Prefix, 0, min(strings.Count(text, "\n")+1, MaxEntries+1))
	var wrong []Mistake
	number := 0
	for line := range strings.Lines(text) {
		number++
		if i := strings.IndexAny(line, "#;"); i >= 0 {
			line = line[:i]
		}
		entry := strings.TrimSpace(line)
		if entry == "" {
			continue
		}
		p, problem, fix := ParsePrefix(entry)
		if problem != "" {
			wrong = append(wrong, Mistake{number, strings.Index(line, entry) + 1, problem, fix})
			if len(wrong) == maxMistakes {
				return nil, wrong
			}
			continue
		}
		if all = append(all, p); len(all) > MaxEntries {
			return nil, []Mistake{{number, 1, fmt.Sprintf("more than %d entries", MaxEntries), "merge neighbours into shorter prefixes"}}
		}
	}
	if len(wrong) > 0 {
		return nil, wrong
	}
	return all, nil
}

// ParsePrefix reads a prefix or an address. IPv4-mapped IPv6 becomes IPv4, as it does for clients: a
// dual-stack socket reports IPv4 peers in the mapped form. Bits beyond the length are refused, since
// 10.1.2.3/8 may mean the host or the network. problem is "" if nothing is wrong.
func ParsePrefix(s string) (p netip.Prefix, problem, fix string) {
	if !strings.Contains(s, "/") {
		ip, err := netip.ParseAddr(s)
		switch {
		case err != nil:
			return p, quote(s) + " is neither an address nor a prefix", wantPrefix(s)
		case ip.Zone() != "":
			return p, quote(s) + " has a zone", "write " + ip.WithZone("").String()
		}
		ip = ip.Unmap()
		return netip.PrefixFrom(ip, ip.BitLen()), "", ""
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, quote(s) + " is not a prefix", wantPrefix(s)
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return p, s + " is wider than the IPv4-mapped addresses", "write 0.0.0.0/0 for all of IPv4"
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	if p != p.Masked() { // usually an address with the length of its network
		return p, s + " has bits set beyond its length", "write " + p.Masked().String() + ", or " + p.Addr().String() + " for the one address"
	}
	return p, "", ""
}

// wantPrefix says what to write instead of an invalid prefix.
func wantPrefix(s string) string {
	if strings.ContainsAny(s, " \t,") {
		return wantEntry
	}
	return "write for example 192.0.2.0/24, 2001:db8::/32 or 192.0.2.7"
}

// quote shows a text in a message: clipped, and on one line.
func quote(s string) string { return strconv.Quote(safetext.Clip(s, 60)) }
