package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/sync/delta"
	"github.com/fastlimit/fastlimit/sync/gossip"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	s := gossip.Stats{
		SentBytes: 1000, ReceivedBytes: 900, Rejected: map[string]uint64{"key": 3, "cap": 0}, Peers: 2, Yields: true,
		Delta: delta.Stats{
			SentPackets: 8, ReceivedPackets: 7, MergedSlots: 5, ChargedUnits: 60, Mirrors: 3, MirrorBytes: 4096,
			Bans:  delta.BanStats{Sent: 11, UnbansSent: 12, Received: 13, UnbansReceived: 14, Applied: 15, Refused: [delta.NumBanReasons]uint64{16, 17, 18, 19, 20}},
			Rules: []delta.RuleStats{{Rule: "per-ip", Floor: 4, Unsent: 2, Hidden: 6}},
			Peers: []delta.PeerStats{{Node: "b", Lag: 250 * time.Millisecond}},
		},
	}
	c := Cluster(func() gossip.Stats { return s })
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	want := `
# HELP fastlimit_sync_bans_applied_total Bans of other nodes that were applied here.
# TYPE fastlimit_sync_bans_applied_total counter
fastlimit_sync_bans_applied_total 15
# HELP fastlimit_sync_bans_refused_total Bans of other nodes that were not applied, and bans of this node that were not sent, by reason.
# TYPE fastlimit_sync_bans_refused_total counter
fastlimit_sync_bans_refused_total{reason="cap"} 18
fastlimit_sync_bans_refused_total{reason="full"} 19
fastlimit_sync_bans_refused_total{reason="not_accepted"} 16
fastlimit_sync_bans_refused_total{reason="rule"} 17
fastlimit_sync_bans_refused_total{reason="untold"} 20
# HELP fastlimit_sync_bans_total Bans sent by this node and received from others, once each.
# TYPE fastlimit_sync_bans_total counter
fastlimit_sync_bans_total{direction="received"} 13
fastlimit_sync_bans_total{direction="sent"} 11
# HELP fastlimit_sync_bytes_total Bytes on the cluster's sockets, UDP and TCP, including membership and rejected data.
# TYPE fastlimit_sync_bytes_total counter
fastlimit_sync_bytes_total{direction="received"} 900
fastlimit_sync_bytes_total{direction="sent"} 1000
# HELP fastlimit_sync_charged_units_total Units from peers charged to this node's sketches.
# TYPE fastlimit_sync_charged_units_total counter
fastlimit_sync_charged_units_total 60
# HELP fastlimit_sync_floor_units The most units of one client in this epoch that the table of top talkers may have missed.
# TYPE fastlimit_sync_floor_units gauge
fastlimit_sync_floor_units{rule="per-ip"} 4
# HELP fastlimit_sync_lag_seconds Time since the last packet of counts from a peer.
# TYPE fastlimit_sync_lag_seconds gauge
fastlimit_sync_lag_seconds{peer="b"} 0.25
# HELP fastlimit_sync_merged_total Peer entries that changed local state.
# TYPE fastlimit_sync_merged_total counter
fastlimit_sync_merged_total 5
# HELP fastlimit_sync_name_taken 1 while this node is not ready because another node has the same name and started before it.
# TYPE fastlimit_sync_name_taken gauge
fastlimit_sync_name_taken 1
# HELP fastlimit_sync_peers Other nodes that are up.
# TYPE fastlimit_sync_peers gauge
fastlimit_sync_peers 2
# HELP fastlimit_sync_rejected_total Packets, streams and parts of packets that were dropped, by reason.
# TYPE fastlimit_sync_rejected_total counter
fastlimit_sync_rejected_total{reason="cap"} 0
fastlimit_sync_rejected_total{reason="key"} 3
# HELP fastlimit_sync_unbans_total Bans that were sent and then ended early, by an operator at the node that had banned.
# TYPE fastlimit_sync_unbans_total counter
fastlimit_sync_unbans_total{direction="received"} 14
fastlimit_sync_unbans_total{direction="sent"} 12
# HELP fastlimit_sync_unsent_units The most units of one client that wait for room in a packet.
# TYPE fastlimit_sync_unsent_units gauge
fastlimit_sync_unsent_units{rule="per-ip"} 2
`
	var names []string
	for _, n := range []string{"bans_applied_total", "bans_refused_total", "bans_total", "unbans_total", "bytes_total", "charged_units_total", "floor_units", "lag_seconds", "merged_total", "name_taken", "peers", "rejected_total", "unsent_units"} {
		names = append(names, "fastlimit_sync_"+n)
	}
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}
