package gossip

import (
	"maps"
	"slices"

	"github.com/fastlimit/fastlimit/sync/delta"
)

// Why something was dropped before delta saw it. Names that delta uses too
// mean the same and are counted together.
const (
	reasonKey       = "key"       // not encrypted with the key of this cluster
	reasonCluster   = "cluster"   // of a cluster of another name
	reasonTruncated = "truncated" // too short to be anything
	reasonOversized = "oversized"
	reasonMalformed = "malformed" // from a node, and not understood
	reasonVersion   = "version"   // of a node that speaks otherwise
	reasonConflict  = "conflict"  // two nodes of one name
	reasonQueue     = "queue"     // counts that came faster than they were merged
	reasonStreams   = "streams"   // more than maxStreams at a time, or a list too long
	reasonNodes     = "nodes"     // more nodes than max_nodes
	reasonAddress   = "address"   // a node where others are, or where none can be
	reasonBudget    = "budget"    // to be sent, more than max_nodes nodes are sent
)

// What the log warns of and is no rejection.
const (
	reasonNetwork = "network" // could not be sent or read
	reasonUDP     = "udp"     // arrives over TCP only
	quiet         = ""
)

// refusal is why a node is not let in. memberlist, whose delegate says so, knows
// it as an error.
type refusal struct{ reason, text string }

// Error implements error.
func (r *refusal) Error() string { return r.text }

var (
	errNodes   = &refusal{reasonNodes, "there are max_nodes nodes"}
	errAddress = &refusal{reasonAddress, "its address is that of other nodes, or of no node"}
	errName    = &refusal{reasonMalformed, "its name is empty or too long"}
	errVersion = &refusal{reasonVersion, "it speaks another version"}
)

// reasons are all values of the keys of [Stats.Rejected].
func reasons() []string {
	all := map[string]bool{}
	for _, r := range []string{
		reasonKey, reasonCluster, reasonTruncated, reasonOversized, reasonMalformed, reasonVersion, reasonConflict, reasonQueue, reasonStreams,
		reasonNodes, reasonAddress, reasonBudget,
	} {
		all[r] = true
	}
	for _, r := range delta.Reasons() {
		all[r.String()] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// advice is what the log says of a reason.
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
	reasonUDP:       "a node answers over TCP and not over UDP: is UDP to it allowed?",
}
