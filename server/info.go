package server

import (
	"runtime"
	"time"

	"github.com/fastlimit/fastlimit"
)

// serverInfo is the document of /v1/info.
type serverInfo struct {
	Version       string         `json:"version"`
	Go            string         `json:"go"`
	UptimeSeconds float64        `json:"uptime_seconds"`
	Listen        []listenerInfo `json:"listen"`
	Admin         string         `json:"admin"`
	DecideAPI     bool           `json:"decide_api"`
	Memory        memoryInfo     `json:"memory"`
	Redis         *redisInfo     `json:"redis,omitempty"`
	Connections   connsInfo      `json:"connections"`
	Drain         drainInfo      `json:"drain"`
	Cluster       *clusterInfo   `json:"cluster,omitempty"`
	Rules         []ruleInfo     `json:"rules"`
}

type listenerInfo struct {
	Address    string `json:"address"`
	DenyStatus int    `json:"deny_status"`
}

// connsInfo is the bounds on connections; max as the limit of open files allows
// it.
type connsInfo struct {
	Max               int     `json:"max"`
	MaxPerClient      int     `json:"max_per_client"`
	HeaderBytes       int     `json:"header_bytes"`
	HeaderTimeoutSecs float64 `json:"header_timeout_seconds"`
	IdleTimeoutSecs   float64 `json:"idle_timeout_seconds"`
	WriteTimeoutSecs  float64 `json:"write_timeout_seconds"`
	Open              int     `json:"open"`
}

type drainInfo struct {
	DelaySecs   float64 `json:"delay_seconds"`
	TimeoutSecs float64 `json:"timeout_seconds"`
}

// clusterInfo is about this node and the others.
type clusterInfo struct {
	Name         string   `json:"name"`
	Node         string   `json:"node"`
	Address      string   `json:"address"`
	MaxNodes     int      `json:"max_nodes"`
	IntervalSecs float64  `json:"interval_seconds"`
	LagSecs      float64  `json:"lag_seconds"` // that cluster_bound assumes
	Peers        []string `json:"peers"`
}

// boundInfo is the most that all nodes admit of one client: burst + rate·s
// units in any s seconds; see [fastlimit.RulePlan.ClusterBound].
type boundInfo struct {
	Burst uint64  `json:"burst"`
	Rate  float64 `json:"rate_per_second"`
}

// memoryInfo is the plan of the local tier.
type memoryInfo struct {
	Bytes            int64   `json:"bytes"`
	FilterWindowSecs float64 `json:"filter_window_seconds"`
	FilterClients    int     `json:"filter_clients"`

	Go *GoMemory `json:"go,omitempty"`
}

type ruleInfo struct {
	Name       string  `json:"name"`
	Rate       string  `json:"rate"`
	Burst      uint64  `json:"burst"`
	Cost       uint64  `json:"cost"`
	Mode       string  `json:"mode"`
	EscalateAt float64 `json:"escalate_at"`
	Strict     bool    `json:"strict"`
	Filter     bool    `json:"first_seen_filter"`

	SketchCells int     `json:"sketch_cells"`
	Buckets     int     `json:"buckets"`
	Bytes       int64   `json:"bytes"`
	Carries     float64 `json:"carries_requests_per_second"`

	OnFailure string `json:"on_failure"`

	// BurstBound is what P2 admits of one client at once; see
	// [fastlimit.RulePlan.AtOnce].
	BurstBound uint64 `json:"burst_bound"`
	// ClusterBound is that of all nodes together.
	ClusterBound *boundInfo `json:"cluster_bound,omitempty"`
}

func (s *Server) describe() serverInfo {
	plan := s.limiter.Plan()
	info := serverInfo{
		Version: s.config.Version, Go: runtime.Version(),
		UptimeSeconds: time.Since(s.started).Seconds(),
		DecideAPI:     s.config.DecideAPI,
		Memory: memoryInfo{
			Bytes: plan.Memory, FilterWindowSecs: plan.Window.Seconds(), FilterClients: plan.Clients,
			Go: s.config.GoMemory,
		},
		Connections: connsInfo{
			Max: s.config.Connections.Max, MaxPerClient: s.config.Connections.MaxPerClient, HeaderBytes: s.config.Connections.HeaderBytes,
			HeaderTimeoutSecs: s.config.Connections.HeaderTimeout.Seconds(), IdleTimeoutSecs: s.config.Connections.IdleTimeout.Seconds(),
			WriteTimeoutSecs: s.config.Connections.WriteTimeout.Seconds(), Open: s.conns.count(),
		},
		Drain: drainInfo{DelaySecs: s.config.Drain.Delay.Seconds(), TimeoutSecs: s.config.Drain.Timeout.Seconds()},
	}
	for i, a := range s.Addrs() {
		info.Listen = append(info.Listen, listenerInfo{Address: a.String(), DenyStatus: s.traffic[i].listener.DenyStatus})
	}
	if a := s.AdminAddr(); a != nil {
		info.Admin = a.String()
	}
	for i := range plan.Rules {
		info.Rules = append(info.Rules, describeRule(&plan.Rules[i]))
	}
	if s.config.Redis != nil {
		info.addRedis(s.config.Redis())
	}
	if s.config.Cluster != nil {
		info.addCluster(s.config.Cluster(), &plan)
	}
	return info
}

// addCluster tells of the other nodes, and what all of them admit.
func (i *serverInfo) addCluster(c ClusterInfo, plan *fastlimit.Plan) {
	i.Cluster = &clusterInfo{
		Name: c.Name, Node: c.Node, Address: c.Address, MaxNodes: c.MaxNodes, Peers: append([]string{}, c.Peers...),
		IntervalSecs: c.Interval.Seconds(), LagSecs: c.Lag().Seconds(),
	}
	for k := range plan.Rules {
		rate, burst := plan.Rules[k].ClusterBound(c.Lag())
		i.Rules[k].ClusterBound = &boundInfo{Burst: burst, Rate: rate}
	}
}

func describeRule(p *fastlimit.RulePlan) ruleInfo {
	c := &p.Config
	return ruleInfo{
		Name: c.Name, Rate: c.Rate.String(), Burst: c.Burst, Cost: c.Cost, Mode: c.Mode.String(),
		EscalateAt: *c.EscalateAt, Strict: c.Strict, Filter: p.Filter,
		SketchCells: p.Cells, Buckets: p.Buckets, Bytes: p.Bytes, Carries: p.RequestsPerSecond,
		OnFailure: c.OnFailure.String(), BurstBound: p.MaxBurst(),
	}
}
