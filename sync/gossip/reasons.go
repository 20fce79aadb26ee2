package gossip

import (
	"maps"
	"slices"

	"github.com/fastlimit/fastlimit/sync/delta"
)

// Why something was dropped before delta saw it. A name that delta uses too means
// the same there, and both counts are added up.
const (
	reasonKey       = "key"       // not encrypted with the key of this cluster
	reasonCluster   = "cluster"   // of a cluster with another name
	reasonTruncated = "truncated" // too short to be anything
	reasonOversized = "oversized"
	reasonMalformed = "malformed" // from a node, but not parseable
	reasonVersion   = "version"   // of a node with another version
	reasonConflict  = "conflict"  // two nodes with one name
	reasonQueue     = "queue"     // counts that came faster than they were merged
	reasonStreams   = "streams"   // more than maxStreams at a time, or a list too long
	reasonNodes     = "nodes"     // more nodes than max_nodes
	reasonAddress   = "address"   // a node at an address of other nodes, or at an impossible one
	reasonBudget    = "budget"    // an outgoing packet beyond the allowance for max_nodes nodes
	reasonSource    = "source"    // bans of a node that came from another address than its own
)

// Reasons for a warning that are not rejections, and therefore not in [Stats].
const (
	reasonNetwork = "network" // could not be sent or read
	reasonUDP     = "udp"     // a peer that answers over TCP but not over UDP

	accepted = "" // no reason at all
)

// refusal is why a node is not admitted. It is an error because memberlist's
// delegate returns one.
type refusal struct{ reason, text string }

// Error implements error.
func (r *refusal) Error() string { return r.text }

var (
	errNodes   = &refusal{reasonNodes, "there are max_nodes nodes"}
	errAddress = &refusal{reasonAddress, "its address is that of other nodes, or of no node"}
	errName    = &refusal{reasonMalformed, "its name is empty or too long"}
	errVersion = &refusal{reasonVersion, "it speaks another version"}
)

// reasons returns all keys of [Stats.Rejected].
func reasons() []string {
	all := maps.Clone(advice)
	delete(all, reasonNetwork)
	delete(all, reasonUDP)
	for r := range delta.NumReasons {
		all[r.String()] = ""
	}
	return slices.Sorted(maps.Keys(all))
}

// advice is the log's text for each reason of this package.
var advice = map[string]string{
	reasonKey:       "sender without this cluster's secret, or with another name of the cluster in front: compare secret and name",
	reasonCluster:   "sender of another cluster: give it its own port, or the same name",
	reasonTruncated: "packet too short to be anything",
	reasonOversized: "packet larger than any node sends",
	reasonMalformed: "packet of a node that cannot be read: do all nodes run the same version?",
	reasonVersion:   "node of another version is left out: run the same version on all",
	reasonConflict:  "two nodes have one name: set cluster.node to a name of its own on each",
	reasonQueue:     "counts come faster than they can be merged",
	reasonStreams:   "too many or too long lists of members at a time",
	reasonNetwork:   "packets cannot be sent or read",
	reasonNodes:     "more nodes than max_nodes: those beyond are not let in; raise it on all nodes",
	reasonAddress:   "a node says that it is where other nodes are, or where none can be: compare advertise and node",
	reasonBudget:    "more would be sent than max_bytes for max_nodes nodes: something makes this node send",
	reasonSource:    "bans come from another address than that of the node that they name: compare advertise there, or look for who forges them",
	reasonUDP:       "a node answers over TCP and not over UDP: is UDP to it allowed?",
}
