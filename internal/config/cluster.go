package config

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit"
)

// Cluster is how this node meets the others, as the file names it, with
// defaults filled in.
type Cluster struct {
	Name      string // what the nodes have in common
	Node      string // unique name of this node; "" is the address at which others reach it
	Bind      string // host:port, UDP and TCP
	Advertise string // IP:port at which the others reach it; "" is Bind
	Join      []string
	Secret    string
	Interval  time.Duration // between two exchanges of counts

	MaxBytes   int // to each other node at each interval
	MaxNodes   int
	TopTalkers int      // slots for each rule
	Ignore     []string // nodes whose counts are not believed
}

// Defaults and bounds of cluster.
const (
	defaultInterval   = 100 * time.Millisecond
	minInterval       = 20 * time.Millisecond
	maxInterval       = 10 * time.Second
	defaultMaxBytes   = 16 << 10
	minMaxBytes       = 4 << 10 // two packets and more
	maxMaxBytes       = 1 << 20
	defaultMaxNodes   = 32
	maxMaxNodes       = 1000
	clusterTopTalkers = 8192
	minSecret         = 16
	maxSeeds          = 64

	clusterExample = `write for example cluster: {name: edge, bind: "10.0.0.1:7946", join: ["10.0.0.2:7946"], secret_file: /etc/fastlimit/secret}`
	secretFix      = "write the same random text on all nodes: openssl rand -base64 32 makes one"
)

// clusterNodes are the settings of cluster that depend on each other.
type clusterNodes struct{ name, bind, secret, secretFile *node }

func (d *decoder) cluster(n node) {
	c := &Cluster{
		Interval: defaultInterval, MaxBytes: defaultMaxBytes, MaxNodes: defaultMaxNodes, TopTalkers: clusterTopTalkers,
	}
	var at clusterNodes
	set := func(to **node) func(node) { return func(v node) { *to = &v } }
	ok := d.mapping(n, "settings: "+clusterExample, []setting{
		{"name", set(&at.name)},
		{"bind", set(&at.bind)},
		{"join", func(v node) { c.Join = d.seeds(v) }},
		{"secret", set(&at.secret)},
		{"secret_file", set(&at.secretFile)},
		{"interval", func(v node) { d.interval(v, &c.Interval) }},
		{"node", func(v node) { c.Node = d.nodeName(v) }},
		{"advertise", func(v node) { c.Advertise = d.advertise(v) }},
		{"max_bytes", func(v node) { d.maxBytes(v, &c.MaxBytes) }},
		{"max_nodes", func(v node) { d.bounded(v, &c.MaxNodes, "32", 2, maxMaxNodes) }},
		{"top_talkers", func(v node) { d.bounded(v, &c.TopTalkers, "8192", 4, fastlimit.MaxTopTalkers) }},
		{"ignore", func(v node) { c.Ignore = d.ignored(v) }},
	})
	d.cfg.Cluster = c // also where it is broken: rules are then read as they are meant
	if !ok {
		return
	}
	if at.name == nil {
		d.missing(n, "name", "give all nodes the same one, for example name: edge")
	} else {
		c.Name = d.word(*at.name, "a name of 1 to 64 letters, digits, dots, dashes or underscores", nameRunes)
	}
	if at.bind == nil {
		d.missing(n, "bind", `write the address that the other nodes reach, for example bind: "10.0.0.1:7946"`)
	} else {
		d.clusterBind(*at.bind, c)
	}
	d.clusterSecret(n, &at, c)
}

// clusterBind keeps the port apart from the others, which are TCP too.
func (d *decoder) clusterBind(n node, c *Cluster) {
	if !d.address(n, &c.Bind) {
		return
	}
	if other := taken(d.cfg.Listeners, c.Bind, d.machine.resolve); other != "" {
		d.fail(n, c.Bind+" is taken by the listener "+other, "give the cluster a port of its own, for example 7946")
	} else if overlap(d.cfg.Admin, c.Bind, d.machine.resolve) {
		d.fail(n, c.Bind+" is taken by admin", "give the cluster a port of its own, for example 7946")
	}
}

// clusterSecret never shows what it reads.
func (d *decoder) clusterSecret(n node, at *clusterNodes, c *Cluster) {
	from := at.secret
	switch {
	case at.secret != nil && at.secretFile != nil:
		d.fail(*at.secretFile, "secret is set too", "remove one of the two")
		return
	case at.secret != nil:
		s, ok := d.scalar(*at.secret, "a secret of 16 characters or more")
		if !ok {
			return
		}
		c.Secret = s.text
	case at.secretFile != nil:
		before := len(d.errs)
		from, c.Secret = at.secretFile, d.secretFile(*at.secretFile)
		if len(d.errs) > before {
			return
		}
	default:
		d.missing(n, "secret", "set secret or secret_file; "+secretFix)
		return
	}
	if len(c.Secret) < minSecret {
		d.fail(*from, fmt.Sprintf("%d characters are too few", len(c.Secret)), fmt.Sprintf("want %d or more; %s", minSecret, secretFix))
	}
}

const nameRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

// word reads a text of 1 to 64 of the runes.
func (d *decoder) word(n node, want, runes string) string {
	s, ok := d.text(n, want)
	if !ok {
		return ""
	}
	if len(s) > 64 || strings.Trim(s, runes) != "" {
		d.fail(n, quote(s)+" is not a name", "want "+want)
		return ""
	}
	return s
}

// nodeName also takes what the default looks like, an address and a port.
func (d *decoder) nodeName(n node) string {
	return d.word(n, "a name of 1 to 64 letters, digits, dots, dashes or underscores, or host:port", nameRunes+":[]")
}

func (d *decoder) ignored(n node) []string {
	var all []string
	for _, item := range d.items(n, "a list of nodes such as [edge-3]") {
		if s := d.nodeName(item); s != "" {
			all = append(all, s)
		}
	}
	return all
}

// seeds reads the nodes to ask first. None is fine: others may ask this one.
func (d *decoder) seeds(n node) []string {
	var all []string
	items := d.items(n, `a list such as ["10.0.0.2:7946"]`)
	if len(items) > maxSeeds {
		d.fail(n, fmt.Sprintf("%d addresses", len(items)), fmt.Sprintf("want at most %d: any node of the cluster knows the others", maxSeeds))
		return nil
	}
	for _, item := range items {
		var a string
		if !d.address(item, &a) {
			continue
		}
		if host, port, err := net.SplitHostPort(a); err != nil || host == "" || port == "0" {
			d.fail(item, quote(a)+" is not the address of a node", "write host:port, for example 10.0.0.2:7946")
			continue
		}
		all = append(all, a)
	}
	return all
}

// advertise reads what goes to other machines, which may know no names.
func (d *decoder) advertise(n node) string {
	const want = "the IP address and port at which the other nodes reach this one, for example 10.0.0.1:7946"
	s, ok := d.text(n, want)
	if !ok {
		return ""
	}
	a, err := netip.ParseAddrPort(s)
	if err != nil || a.Port() == 0 || a.Addr().IsUnspecified() || a.Addr().Zone() != "" {
		d.fail(n, quote(s)+" is not an address that others can reach", "want "+want)
		return ""
	}
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()).String()
}

func (d *decoder) interval(n node, to *time.Duration) {
	d.span(n, to, "100ms", minInterval, maxInterval, ": what a client gains by visiting all nodes grows with it")
}

func (d *decoder) maxBytes(n node, to *int) {
	s, ok := d.scalar(n, "a size such as 16KiB")
	if !ok {
		return
	}
	v, ok := parseSize(s.text)
	switch {
	case !ok:
		d.fail(n, quote(s.text)+" is not a size", "write for example 16KiB")
	case v < minMaxBytes || v > maxMaxBytes:
		d.fail(n, s.text+" is out of range", "want 4KiB to 1MiB: what one node sends another at each interval")
	default:
		*to = int(v)
	}
}

// bounded reads a whole number within bounds.
func (d *decoder) bounded(n node, to *int, example string, least, most uint64) {
	v, ok := d.whole(n, example)
	if !ok {
		return
	}
	if v < least || v > most {
		d.fail(n, fmt.Sprintf("%d is out of range", v), fmt.Sprintf("want %d to %d", least, most))
		return
	}
	*to = int(v)
}
