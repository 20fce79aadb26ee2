// Package syncmetrics shows what a [gossip.Cluster] counts to Prometheus. It
// stands apart so that neither the cluster knows of Prometheus nor the server
// of the cluster.
package syncmetrics

import (
	"github.com/fastlimit/fastlimit/sync/gossip"
	"github.com/prometheus/client_golang/prometheus"
)

// Collector reads the counters of a cluster when it is scraped. It is safe for
// concurrent use. The zero value is not usable: call [New].
type Collector struct {
	stats func() gossip.Stats
}

// New returns a collector of what stats returns.
func New(stats func() gossip.Stats) *Collector { return &Collector{stats} }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("fastlimit_sync_"+name, help, labels, nil)
}

var (
	descBytes    = desc("bytes_total", "Bytes on the cluster's sockets, UDP and TCP, membership and what was rejected included.", "direction")
	descPackets  = desc("packets_total", "Packets of counts: made, which go to every peer, and taken in.", "direction")
	descPeers    = desc("peers", "Other nodes that are up.")
	descYields   = desc("name_taken", "1 while this node is not ready because another one has its name and started before it.")
	descRejected = desc("rejected_total", "Packets, streams and parts of packets that were dropped, by reason.", "reason")
	descLag      = desc("lag_seconds", "Time since the last packet of counts of a peer.", "peer")
	descFloor    = desc("floor_units", "Most units of one client in this epoch that the table of top talkers may not know.", "rule")
	descUnsent   = desc("unsent_units", "Most units of one client that wait for room in a packet.", "rule")
	descHidden   = desc("hidden_units", "Most units of one client in an epoch that the peers may not be told: f of the bound.", "rule")
	descMerged   = desc("merged_total", "Counts of peers that told something new.")
	descCharged  = desc("charged_units_total", "Units of peers charged to the sketches here.")
	descMirrors  = desc("mirrors", "Nodes whose counts are kept, those that are gone included.")
	descMemory   = desc("mirror_bytes", "Memory of these counts.")
)

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descBytes, descPackets, descPeers, descYields, descRejected, descLag, descFloor, descUnsent, descHidden, descMerged, descCharged, descMirrors, descMemory,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. Peers are as many as there are
// nodes, so their names may be labels.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	s := c.stats()
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count(descBytes, s.SentBytes, "sent")
	count(descBytes, s.ReceivedBytes, "received")
	count(descPackets, s.Delta.SentPackets, "sent")
	count(descPackets, s.Delta.ReceivedPackets, "received")
	gauge(descPeers, float64(s.Peers))
	yields := 0.0
	if s.Yields {
		yields = 1
	}
	gauge(descYields, yields)
	for reason, n := range s.Rejected {
		count(descRejected, n, reason)
	}
	for _, p := range s.Delta.Peers {
		gauge(descLag, p.Lag.Seconds(), p.Node)
	}
	for _, r := range s.Delta.Rules {
		gauge(descFloor, float64(r.Floor), r.Rule)
		gauge(descUnsent, float64(r.Unsent), r.Rule)
		gauge(descHidden, float64(r.Hidden), r.Rule)
	}
	count(descMerged, s.Delta.MergedSlots)
	count(descCharged, s.Delta.ChargedUnits)
	gauge(descMirrors, float64(s.Delta.Mirrors))
	gauge(descMemory, float64(s.Delta.MirrorBytes))
}
