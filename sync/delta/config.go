package delta

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/fastlimit/fastlimit/toptalkers"
)

// Rule is what nodes exchange the top talkers of. *fastlimit.Rule is one.
// Implementations are safe for concurrent use.
type Rule interface {
	toptalkers.Rule
	// Identity is the same at all nodes that mean the same rule.
	Identity() uint64
	// ChargePeer charges units that a peer counted to the client with this
	// [sketch.Digest.Pos], as of now. It makes suspects and denies nobody.
	ChargePeer(pos, units uint64)
}

// Config configures a [State]. Cluster, Node and Incarnation are required.
type Config struct {
	// Cluster is the name that all nodes of a cluster share.
	Cluster string
	// Node is this node's name, unique in the cluster; at most 128 bytes.
	Node string
	// Incarnation is a random number for this life of the process, which
	// others learn through the membership. Counts begin anew with each.
	Incarnation uint64
	// Rules are those whose top talkers are exchanged; rules without a
	// table are left out.
	Rules []Rule

	// MaxBytes is the ceiling of what a tick sends to each peer, all packets
	// together. More lets less wait, and costs MaxBytes·(N-1) a tick. 0 means
	// 16 KiB; at least two packets.
	MaxBytes int
	// PacketSize is the ceiling of one packet: what fits a datagram with room
	// for its encryption. 0 means 1350; at least 512, at most 64 KiB.
	PacketSize int
	// MaxNodes is the number of other nodes whose tables are mirrored. 0
	// means 32.
	MaxNodes int
	// MaxRate is the rate in units/s, all rules and clients together, up to
	// which the growth that one node reports is believed. 0 means 10^7.
	MaxRate uint64
	// Ignore are names of nodes that are not believed.
	Ignore []string
}

// Bounds of the configuration and of the format.
const (
	maxPacket   = 64 << 10 // bytes
	MaxNodeName = 128      // bytes
	maxName     = 40       // bytes of a client's compact name
	maxSlots    = 1 << 22  // of a table
	maxCount    = 1 << 53  // units; no honest node gets there

	DefaultMaxBytes   = 16 << 10
	defaultPacketSize = 1350
	defaultMaxNodes   = 32
	defaultMaxRate    = 10_000_000

	minPacketSize = 512
	maxMaxBytes   = 64 << 20
	maxMaxNodes   = 1 << 16
	maxMaxRate    = 1_000_000_000_000
)

// withDefaults returns the configuration with its defaults filled in, and all
// that is wrong with it.
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
	c.MaxRate = cmp.Or(c.MaxRate, defaultMaxRate)
	if c.MaxRate > maxMaxRate {
		add("MaxRate %d: want at most %d units/s", c.MaxRate, uint64(maxMaxRate))
	}
	seen := map[uint64]string{}
	for _, r := range c.Rules {
		if other, ok := seen[r.Identity()]; ok {
			add("rules %q and %q have one identity", other, r.Name())
		}
		seen[r.Identity()] = r.Name()
	}
	return c, errors.Join(errs...)
}
