package delta

// Reason is why a packet, or part of one, was not merged.
type Reason uint8

// The reasons. UnknownRule, Slots and Cap drop part of a packet, all others the whole.
const (
	Malformed        Reason = iota // does not parse to its end
	Oversized                      // longer than 64 KiB
	Version                        // another version of the format
	Cluster                        // of a cluster with another name
	Self                           // names this node as its sender
	Ignored                        // from a node in Config.Ignore
	UnknownNode                    // from a node that is no member
	StaleIncarnation               // not from the member's current incarnation
	TooManyNodes                   // from a member beyond Config.MaxNodes
	UnknownRule                    // a section of a rule that this node lacks or configures differently
	Slots                          // an entry beyond the end of this node's table
	Cap                            // growth beyond believedRate: recorded, not charged
	Clock                          // bans with a time at which the node cannot have sent them
	NumReasons                     // the number of reasons

	accepted = NumReasons
)

var reasonNames = [NumReasons]string{
	"malformed", "oversized", "version", "cluster", "self", "ignored",
	"unknown_node", "stale_incarnation", "nodes", "rule", "slots", "cap", "clock",
}

// String returns the reason's name in metrics.
func (r Reason) String() string {
	if r >= NumReasons {
		return "unknown"
	}
	return reasonNames[r]
}

// Rejected says why [State.Receive] merged nothing of a packet.
type Rejected struct {
	Reason Reason
	Node   string // the sender's name as the packet states it, unverified; "" if it was not read
}

// BanReason is why a ban was not applied, or not sent.
type BanReason uint8

// The reasons.
const (
	bansOff       BanReason = iota // of another node: without Config.AcceptBans
	bansRule                       // of another node: the rule bans nobody here, or has no room
	bansCap                        // of another node: more than believedBans in a second; sent again later
	bansFull                       // of another node: more than are remembered of one node
	bansUntold                     // of this node: more than are sent at a time
	NumBanReasons                  // the number of reasons
)

var banReasonNames = [NumBanReasons]string{"not_accepted", "rule", "cap", "full", "untold"}

// String returns the reason's name in metrics.
func (r BanReason) String() string {
	if r >= NumBanReasons {
		return "unknown"
	}
	return banReasonNames[r]
}
