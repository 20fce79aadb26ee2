package nft

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"

	"github.com/fastlimit/fastlimit/ban/feed"
	"github.com/fastlimit/fastlimit/internal/field"
)

// DefaultTable is the name of the table if Config.Table is empty.
const DefaultTable = "fastlimit"

// tableName matches names that the nft tool accepts without quotes, within the kernel's
// limit.
var tableName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_.]{0,63}$`)

// Config says what is made in the kernel.
type Config struct {
	// Table is the name of the table, of family inet. Each process in a network namespace
	// needs a different name. Default DefaultTable.
	Table string

	// Listens are the TCP addresses and ports to which banned clients may not send. 0.0.0.0
	// is all IPv4 addresses of this machine, :: all of both families. Addresses of other
	// programs, or of machines for which this one forwards, are not among them.
	Listens []netip.AddrPort

	// Max is how many prefixes can be banned at once; each set has room for twice as many.
	// Default [feed.DefaultMax].
	Max int
}

// Validate returns everything that is wrong, joined, each as a FieldError of package
// fastlimit.
func (c Config) Validate() error {
	bad := field.Report{Package: "fastlimit/nft"}
	bad.When(c.Table != "" && !tableName.MatchString(c.Table), "Table",
		strconv.Quote(c.Table)+" is not a name of at most 64 letters, digits, dots and underscores that begins with a letter", "write for example "+DefaultTable)
	bad.When(len(c.Listens) == 0, "Listens", "none", "name what is listened on")
	bad.When(slices.ContainsFunc(c.Listens, func(l netip.AddrPort) bool { return l.Port() == 0 || !l.Addr().IsValid() }), "Listens",
		"has no address, or port 0", "name what is listened on")
	bad.When(c.Max < 0 || c.Max > feed.MostBans, "Max", fmt.Sprintf("%d is out of range", c.Max), fmt.Sprintf("want 1 to %d, or 0 for %d", feed.MostBans, feed.DefaultMax))
	return bad.Err()
}

func (c Config) withDefaults() Config {
	c.Table = cmp.Or(c.Table, DefaultTable)
	c.Max = cmp.Or(c.Max, feed.DefaultMax)
	var all []netip.AddrPort
	for _, l := range c.Listens {
		all = append(all, netip.AddrPortFrom(l.Addr().Unmap().WithZone(""), l.Port()))
	}
	slices.SortFunc(all, netip.AddrPort.Compare)
	c.Listens = slices.Compact(all)
	return c
}

// ports returns those of Listens, each once.
func (c Config) ports() (all []uint16) {
	for _, l := range c.Listens {
		all = append(all, l.Port())
	}
	slices.Sort(all)
	return slices.Compact(all)
}
