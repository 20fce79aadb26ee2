package delta

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/fastlimit/fastlimit/toptalkers"
)

// Rule is a rule whose top talkers the nodes exchange. Implementations are safe for
// concurrent use.
type Rule interface {
	toptalkers.Rule
	// Identity is equal on all nodes on which the rule is the same.
	Identity() uint64
	// ChargePeer charges units counted by a peer to the client with this
	// [sketch.Digest.Pos], as of now. It can make the client a suspect but
	// denies nobody.
	ChargePeer(pos, units uint64)
}

// Config configures a [State]. Cluster, Node and Incarnation are required.
type Config struct {
	// Cluster is the name shared by all nodes of the cluster.
	Cluster string
	// Node is this node's name, unique in the cluster; at most 128 bytes.
	Node string
	// Incarnation identifies this run of the process and is different for each;
	// others learn it through the membership. Counts of a new incarnation start
	// from zero.
	Incarnation uint64
	// Rules are the rules whose top talkers are exchanged; rules without a
	// table are left out.
	Rules []Rule

	// Banners are the rules whose bans are exchanged, if any. AcceptBans applies the bans
	// of other nodes here; otherwise they are only counted.
	Banners    []Banner
	AcceptBans bool

	// MaxBytes limits what a tick sends to each peer, all packets together. A
	// higher limit delays fewer counts and costs MaxBytes·(N-1) per tick. 0
	// means 16 KiB; at least two packets.
	MaxBytes int
	// PacketSize limits one packet, so that it fits a datagram with room for
	// encryption. 0 means 1350; at least 512, at most 64 KiB.
	PacketSize int
	// MaxNodes is the number of other nodes whose tables are mirrored. 0
	// means 32.
	MaxNodes int
	// Ignore are the names of nodes whose packets are dropped.
	Ignore []string

	maxRate uint64 // for tests; 0 means believedRate
	maxBans int    // for tests; 0 means maxBans
}

// banBytes returns how many bytes of a tick packets of bans may take.
func (c *Config) banBytes() int { return max(c.MaxBytes/4, minPacketSize) }

// Bounds of the configuration and of the format.
const (
	maxPacket   = 64 << 10 // bytes
	MaxNodeName = 128      // bytes
	maxName     = 40       // bytes of a client's compact name
	maxSlots    = 1 << 22  // of a table
	maxCount    = 1 << 53  // units; exact as a float64, and out of reach for an honest node

	DefaultMaxBytes   = 16 << 10
	defaultPacketSize = 1350
	defaultMaxNodes   = 32

	// believedRate is the growth in units/s, over all rules and clients, that one node is
	// believed: several hundred times the requests that one node can serve.
	believedRate = 10_000_000

	minPacketSize = 512
	maxMaxBytes   = 64 << 20
	maxMaxNodes   = 1 << 16
)

// withDefaults returns the configuration with its defaults filled in. Its error
// joins all problems found.
func (c Config) withDefaults() (Config, error) {
	var errs []error
	add := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("fastlimit/sync/delta: "+format, args...))
	}
	if c.Cluster == "" {
		add("Cluster is empty: nodes of one cluster share a name")
	}
	if c.Node == "" || len(c.Node) > MaxNodeName {
		add("Node has %d bytes: want 1 to %d", len(c.Node), MaxNodeName)
	}
	c.PacketSize = cmp.Or(c.PacketSize, defaultPacketSize)
	if c.PacketSize < minPacketSize || c.PacketSize > maxPacket {
		add("PacketSize %d: want %d to %d", c.PacketSize, minPacketSize, maxPacket)
	}
	c.MaxBytes = cmp.Or(c.MaxBytes, DefaultMaxBytes)
	if c.MaxBytes < 2*c.PacketSize || c.MaxBytes > maxMaxBytes {
		add("MaxBytes %d: want two packets of %d to %d", c.MaxBytes, c.PacketSize, maxMaxBytes)
	}
	c.MaxNodes = cmp.Or(c.MaxNodes, defaultMaxNodes)
	if c.MaxNodes < 1 || c.MaxNodes > maxMaxNodes {
		add("MaxNodes %d: want 1 to %d", c.MaxNodes, maxMaxNodes)
	}
	c.maxRate = cmp.Or(c.maxRate, believedRate)
	c.maxBans = cmp.Or(c.maxBans, maxBans)
	seen := map[uint64]string{}
	for _, r := range c.Rules {
		if other, ok := seen[r.Identity()]; ok {
			add("rules %q and %q have one identity", other, r.TopTalkers().Rule)
		}
		seen[r.Identity()] = r.TopTalkers().Rule
	}
	return c, errors.Join(errs...)
}
