package metrics

import (
	"github.com/fastlimit/fastlimit/internal/prom"
	"github.com/fastlimit/fastlimit/sync/delta"
	"github.com/fastlimit/fastlimit/sync/gossip"
	"github.com/prometheus/client_golang/prometheus"
)

// Cluster returns a collector of a cluster's counts. The prefix is sync, like the package: "cluster" would be
// taken for Redis Cluster.
func Cluster(stats func() gossip.Stats) prometheus.Collector {
	return prom.Collector(stats, clusterMetrics)
}

// There are as many peers as nodes, so their names may be labels. Those that have left drop out of the
// gauges; counters have no peer label, since a counter must not disappear.
var clusterMetrics = []prom.Metric[gossip.Stats]{
	prom.Counters("sync_bytes_total", "Bytes on the cluster's sockets, UDP and TCP, including membership and rejected data.", []string{"direction"},
		func(s *gossip.Stats, add func(uint64, ...string)) {
			add(s.SentBytes, "sent")
			add(s.ReceivedBytes, "received")
		}),
	prom.Counters("sync_packets_total", "Packets of counts and bans: created, each of which goes to every peer, and accepted.", []string{"direction"},
		func(s *gossip.Stats, add func(uint64, ...string)) {
			add(s.Delta.SentPackets, "sent")
			add(s.Delta.ReceivedPackets, "received")
		}),
	prom.Gauge("sync_peers", "Other nodes that are up.", func(s *gossip.Stats) float64 { return float64(s.Peers) }),
	prom.Gauge("sync_name_taken", "1 while this node is not ready because another node has the same name and started before it.",
		func(s *gossip.Stats) float64 { return oneIf(s.Yields) }),
	prom.Counters("sync_rejected_total", "Packets, streams and parts of packets that were dropped, by reason.", []string{"reason"},
		func(s *gossip.Stats, add func(uint64, ...string)) {
			for reason, n := range s.Rejected {
				add(n, reason)
			}
		}),
	prom.Gauges("sync_lag_seconds", "Time since the last packet of counts from a peer.", []string{"peer"},
		func(s *gossip.Stats, set func(float64, ...string)) {
			for _, p := range s.Delta.Peers {
				set(p.Lag.Seconds(), p.Node)
			}
		}),
	ruleGauge("sync_floor_units", "The most units of one client in this epoch that the table of top talkers may have missed.",
		func(s *gossip.Stats, i int) float64 { return float64(s.Delta.Rules[i].Floor) }),
	ruleGauge("sync_unsent_units", "The most units of one client that wait for room in a packet.",
		func(s *gossip.Stats, i int) float64 { return float64(s.Delta.Rules[i].Unsent) }),
	ruleGauge("sync_hidden_units", "The most units of one client in an epoch that peers may not learn of: f in the bound.",
		func(s *gossip.Stats, i int) float64 { return float64(s.Delta.Rules[i].Hidden) }),
	prom.Counter("sync_merged_total", "Peer entries that changed local state.", func(s *gossip.Stats) uint64 { return s.Delta.MergedSlots }),
	prom.Counter("sync_charged_units_total", "Units from peers charged to this node's sketches.", func(s *gossip.Stats) uint64 { return s.Delta.ChargedUnits }),
	prom.Counters("sync_bans_total", "Bans sent by this node and received from others, once each.", []string{"direction"},
		func(s *gossip.Stats, add func(uint64, ...string)) {
			add(s.Delta.Bans.Sent, "sent")
			add(s.Delta.Bans.Received, "received")
		}),
	prom.Counters("sync_unbans_total", "Bans that were sent and then ended early, by an operator at the node that had banned.", []string{"direction"},
		func(s *gossip.Stats, add func(uint64, ...string)) {
			add(s.Delta.Bans.UnbansSent, "sent")
			add(s.Delta.Bans.UnbansReceived, "received")
		}),
	prom.Counter("sync_bans_applied_total", "Bans of other nodes that were applied here.", func(s *gossip.Stats) uint64 { return s.Delta.Bans.Applied }),
	prom.Counters("sync_bans_refused_total", "Bans of other nodes that were not applied, and bans of this node that were not sent, by reason.", []string{"reason"},
		func(s *gossip.Stats, add func(uint64, ...string)) {
			for reason, n := range s.Delta.Bans.Refused {
				add(n, delta.BanReason(reason).String())
			}
		}),
	prom.Gauge("sync_mirrors", "Nodes whose counts are kept, including nodes that have left.", func(s *gossip.Stats) float64 { return float64(s.Delta.Mirrors) }),
	prom.Gauge("sync_mirror_bytes", "Memory that these counts use.", func(s *gossip.Stats) float64 { return float64(s.Delta.MirrorBytes) }),
}

// ruleGauge is a gauge with a series for each rule of the configuration, of which there are few.
func ruleGauge(name, help string, read func(s *gossip.Stats, i int) float64) prom.Metric[gossip.Stats] {
	return prom.Gauges(name, help, []string{"rule"}, func(s *gossip.Stats, set func(float64, ...string)) {
		for i := range s.Delta.Rules {
			set(read(s, i), s.Delta.Rules[i].Rule)
		}
	})
}
