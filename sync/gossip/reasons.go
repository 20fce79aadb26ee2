package gossip

import (
	"maps"
	"slices"
	"strings"

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
	reasonQueue     = "queue"     // more than could be looked at
	reasonStreams   = "streams"   // more than maxStreams at a time, or a list too long
	reasonNodes     = "nodes"     // more nodes than max_nodes
	reasonAddress   = "address"   // a node where others are, or where none can be
	reasonBudget    = "budget"    // to be sent, more than max_nodes nodes are sent
)

// What is told of and is no rejection.
const (
	reasonNetwork = "network" // could not be sent or read
	reasonOther   = "other"
	quiet         = ""
)

// Reasons are all values of the keys of [Stats.Rejected].
func Reasons() []string {
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
	reasonQueue:     "packets come faster than they can be read",
	reasonStreams:   "too many or too long lists of members at a time",
	reasonNetwork:   "packets cannot be sent or read",
	reasonNodes:     "more nodes than max_nodes: those beyond are not let in; raise it on all nodes",
	reasonAddress:   "a node says that it is where other nodes are, or where none can be: compare advertise and node",
	reasonBudget:    "more would be sent than max_bytes for max_nodes nodes: something makes this node send",
	reasonOther:     "membership",
}

// patterns tell reasons from the lines that memberlist v0.7.0 logs, in this
// order. TestReasonsOfMemberlist provokes each rejection on real sockets.
var patterns = []struct{ text, reason string }{
	{errNodes.Error(), reasonNodes},
	{errAddress.Error(), reasonAddress},
	{errName.Error(), reasonMalformed},
	{errReply[reasonKey].Error(), reasonKey},
	{errReply[reasonStreams].Error(), reasonStreams},
	{errReply[reasonMalformed].Error(), reasonMalformed},
	{errReply[reasonTruncated].Error(), reasonTruncated},
	{errSilent.Error(), quiet},
	{"Too many pending", reasonStreams},
	{errVersion.Error(), reasonVersion},
	{"protocol version", reasonVersion},
	{"delegate version", reasonVersion},
	{"Vsn is not present", reasonVersion},
	{"Conflicting address", reasonConflict},
	{"queue full", reasonQueue},
	{"Failed to decode", reasonMalformed},
	{"Failed to read remote state", reasonMalformed},
	{"truncated messages", reasonMalformed},
	{"invalid checksum", reasonMalformed},
	{"unexpected node", reasonOther},
	// What the failure detector does is told as nodes that are up or down.
	{"Refuting", quiet},
	{"Suspect ", quiet},
	{"Marking ", quiet},
	{"Updating address", quiet},
	{"Push/Pull with", quiet},
	{"fallback TCP ping", quiet},
	{"Failed to send", reasonNetwork},
	{"Failed to forward", reasonNetwork},
	{"UDP probes failed", reasonNetwork},
}

// classify returns the reason of a line of memberlist's log.
func classify(line string) string {
	if level, _, _ := strings.Cut(line, "memberlist: "); strings.Contains(level, "[DEBUG]") {
		return quiet
	}
	for _, p := range patterns {
		if strings.Contains(line, p.text) {
			return p.reason
		}
	}
	return reasonOther
}
