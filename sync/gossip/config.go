package gossip

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/sync/delta"
	"github.com/hashicorp/memberlist"
	"golang.org/x/time/rate"
)

// Config configures a [Cluster]. Name, Bind and Secret are required.
type Config struct {
	// Name is the name of the cluster. Packets with another name are dropped.
	Name string
	// Secret is shared by all nodes, at least 16 characters. The limiter's
	// secret must be [LimiterSecret] of the same name and secret.
	Secret string
	// Node is this node's name, unique in the cluster. "" means the address at
	// which the others reach it, which is unique where host names may not be.
	Node string

	// Bind is host:port, for UDP and TCP. Port 0 picks a free port.
	Bind string
	// Advertise is the IP:port at which the others reach this node, if not at
	// Bind.
	Advertise string
	// Join are addresses, host:port, of nodes to ask for the others. Each is
	// retried for as long as it is not a member.
	Join []string

	// Interval is the time between two exchanges. 0 means 100 ms. The bound of
	// P2 in a cluster grows by N·r for each second of it; a shorter interval
	// means more packets.
	Interval time.Duration
	// MaxBytes limits what is sent to each peer per interval. 0 means 16 KiB.
	// With a lower limit the counts of many clients take longer to arrive.
	MaxBytes int
	// MaxNodes is N_max, for which the limiter was planned: the number of nodes
	// admitted, this one included, plus those in Join. 0 means 32.
	MaxNodes int
	// Ignore are the names of nodes whose counts and bans are dropped, and which are not
	// asked.
	Ignore []string
	// AcceptBans applies the bans of other nodes here, for at most as long as the rules
	// here would ban. Otherwise they are only counted. Any node with the secret can then
	// have any client denied here.
	AcceptBans bool

	// Answer answers a question that peer, or another node in its name, asks by
	// [Nodes.Ask]. The question may be a replay of an earlier one. Answer is called
	// concurrently, and has two seconds. nil means empty answers.
	Answer func(peer string, question []byte) []byte

	// Logger receives all logs. nil means slog.Default().
	Logger *slog.Logger

	// BanEnded is called when a peer has taken back a ban that was applied here. It is for
	// programs that have passed the ban on, for example to the kernel. The client may still
	// be banned because of other reports. It must not block. Optional.
	BanEnded func(fastlimit.Ban)

	tune func(*memberlist.Config) // for tests: a faster failure detector
}

// Bounds of a [Config].
const (
	minSecret = 16 // characters
	maxSeeds  = 64 // addresses in Join
)

const (
	defaultInterval = 100 * time.Millisecond
	defaultMaxNodes = 32
	minInterval     = time.Millisecond
)

// WithDefaults returns the configuration with its defaults filled in.
func (c Config) WithDefaults() Config {
	c.Interval = cmp.Or(c.Interval, defaultInterval)
	c.MaxNodes = cmp.Or(c.MaxNodes, defaultMaxNodes)
	c.MaxBytes = cmp.Or(c.MaxBytes, delta.DefaultMaxBytes)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Answer == nil {
		c.Answer = func(string, []byte) []byte { return nil }
	}
	return c
}

// withDefaults is WithDefaults after Validate.
func (c Config) withDefaults() (Config, error) {
	if err := c.Validate(); err != nil {
		return c, err
	}
	return c.WithDefaults(), nil
}

// Validate returns all problems, joined, each as a [fastlimit.FieldError]. No
// message contains the secret.
func (c Config) Validate() error {
	var errs []error
	add := func(name, fix, format string, args ...any) {
		errs = append(errs, &fastlimit.FieldError{Package: "fastlimit/sync/gossip", Field: name, Problem: fmt.Sprintf(format, args...), Fix: fix})
	}
	if c.Name == "" || len(c.Name) > 64 {
		add("Name", "want 1 to 64", "has %d bytes", len(c.Name))
	}
	if n := len(c.Secret); n < minSecret {
		add("Secret", fmt.Sprintf("want %d or more; write the same random text on all nodes: openssl rand -base64 32 makes one", minSecret), "%d characters are too few", n)
	}
	if c.Interval < 0 || c.Interval > 0 && c.Interval < minInterval {
		add("Interval", "want "+minInterval.String()+" or more", "%v is too short", c.Interval)
	}
	if c.MaxNodes < 0 {
		add("MaxNodes", "want 1 or more", "%d is out of range", c.MaxNodes)
	}
	if c.Advertise != "" {
		a, err := netip.ParseAddrPort(c.Advertise)
		if err != nil || a.Port() == 0 || a.Addr().IsUnspecified() || a.Addr().Zone() != "" {
			add("Advertise", "want the IP address and port at which the other nodes reach this one, for example 10.0.0.1:7946",
				"%q is not an address that others can reach", c.Advertise)
		}
	}
	if len(c.Join) > maxSeeds {
		add("Join", fmt.Sprintf("want at most %d: any node of the cluster knows the others", maxSeeds), "%d addresses", len(c.Join))
	}
	for i, s := range c.Join {
		if host, port, err := net.SplitHostPort(s); err != nil || host == "" || port == "0" {
			add(fmt.Sprintf("Join[%d]", i), "write host:port, for example 10.0.0.2:7946", "%q is not the address of a node", s)
		}
	}
	return errors.Join(errs...)
}

// Settings of memberlist that differ from its defaults for a LAN.
const (
	// gossipEvery is how often membership changes are gossiped; a new peer is
	// known everywhere within a few hundred ms.
	gossipEvery = 100 * time.Millisecond
	// streamTimeout bounds an exchange of member lists, which usually takes
	// milliseconds.
	streamTimeout = 3 * time.Second
	// reclaimAfter is when the name of a dead node may be reused from another
	// address, as by a container that was restarted.
	reclaimAfter = 10 * time.Second
	// probeEvery is the interval between two probes, each of another peer.
	probeEvery = time.Second
	// goneFor is how long memberlist gossips to a peer that is gone, so that it can object.
	// Then memberlist forgets its name.
	goneFor = 30 * time.Second
)

// allowance limits what may be sent by UDP to all peers together: the counts for
// max_nodes nodes, their encryption, and the membership protocol. A burst of one
// second absorbs ticks that bunch up.
func (c *Config) allowance() *rate.Limiter {
	const membership, perNode = 256 << 10, 4 << 10 // bytes/s
	overhead := float64(packetBytes) / float64(c.payload())
	counts := float64(c.MaxBytes) / c.Interval.Seconds() * overhead
	perSecond := membership + float64(c.MaxNodes)*(counts+perNode)
	return rate.NewLimiter(rate.Limit(perSecond), int(perSecond))
}

// memberlistConfig connects memberlist: its log goes to the journal, its events go
// to the members, its packets through the transport.
func (c *Config) memberlistConfig(t *transport, m *members, j *journal, at netip.AddrPort) *memberlist.Config {
	mc := memberlist.DefaultLANConfig()
	mc.Name = c.Node
	mc.Label = c.Name
	mc.SecretKey = gossipKey(c.Name, c.Secret)
	mc.Transport = t
	mc.BindAddr, mc.BindPort = t.addr().Addr().String(), int(t.addr().Port())
	mc.AdvertiseAddr, mc.AdvertisePort = at.Addr().String(), int(at.Port())
	mc.Delegate, mc.Events, mc.Alive, mc.Conflict = m, m, m, m
	mc.LogOutput = j
	mc.DelegateProtocolMax = knowsQuestions
	mc.UDPBufferSize = packetBytes
	mc.EnableCompression = false // counts are compact, and decompression has no bound
	mc.GossipInterval = gossipEvery
	mc.TCPTimeout = streamTimeout
	mc.DeadNodeReclaimTime = reclaimAfter
	mc.ProbeInterval, mc.GossipToTheDeadTime = probeEvery, goneFor
	if c.tune != nil {
		c.tune(mc)
		m.keepsGone = namesKept(mc.GossipToTheDeadTime, c.MaxNodes, mc.ProbeInterval)
	}
	return mc
}

// payload returns the number of bytes that fit a packet in addition to memberlist's label,
// encryption, checksum and type.
func (c *Config) payload() int {
	const label, encryption, checksum, kind = 2, 1 + 12 + 16, 5, 1
	return packetBytes - label - len(c.Name) - encryption - checksum - kind
}
