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
			Rules: []delta.RuleStats{{Rule: "per-ip", Floor: 4, Unsent: 2, Hidden: 6}},
			Peers: []delta.PeerStats{{Node: "b", Lag: 250 * time.Millisecond}},
		},
	}
	c := Cluster(func() gossip.Stats { return s })
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	want := `
# HELP fastlimit_sync_bytes_total Bytes on the cluster's sockets, UDP and TCP, membership and what was rejected included.
# TYPE fastlimit_sync_bytes_total counter
fastlimit_sync_bytes_total{direction="received"} 900
fastlimit_sync_bytes_total{direction="sent"} 1000
# HELP fastlimit_sync_charged_units_total Units of peers charged to the sketches here.
# TYPE fastlimit_sync_charged_units_total counter
fastlimit_sync_charged_units_total 60
# HELP fastlimit_sync_floor_units Most units of one client in this epoch that the table of top talkers may not know.
# TYPE fastlimit_sync_floor_units gauge
fastlimit_sync_floor_units{rule="per-ip"} 4
# HELP fastlimit_sync_lag_seconds Time since the last packet of counts of a peer.
# TYPE fastlimit_sync_lag_seconds gauge
fastlimit_sync_lag_seconds{peer="b"} 0.25
# HELP fastlimit_sync_merged_total Counts of peers that told something new.
# TYPE fastlimit_sync_merged_total counter
fastlimit_sync_merged_total 5
# HELP fastlimit_sync_name_taken 1 while this node is not ready because another one has its name and started before it.
# TYPE fastlimit_sync_name_taken gauge
fastlimit_sync_name_taken 1
# HELP fastlimit_sync_peers Other nodes that are up.
# TYPE fastlimit_sync_peers gauge
fastlimit_sync_peers 2
# HELP fastlimit_sync_rejected_total Packets, streams and parts of packets that were dropped, by reason.
# TYPE fastlimit_sync_rejected_total counter
fastlimit_sync_rejected_total{reason="cap"} 0
fastlimit_sync_rejected_total{reason="key"} 3
# HELP fastlimit_sync_unsent_units Most units of one client that wait for room in a packet.
# TYPE fastlimit_sync_unsent_units gauge
fastlimit_sync_unsent_units{rule="per-ip"} 2
`
	var names []string
	for _, n := range []string{"bytes_total", "charged_units_total", "floor_units", "lag_seconds", "merged_total", "name_taken", "peers", "rejected_total", "unsent_units"} {
		names = append(names, "fastlimit_sync_"+n)
	}
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}
