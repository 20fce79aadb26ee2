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
	Rules         []ruleInfo     `json:"rules"`
}

type listenerInfo struct {
	Address    string `json:"address"`
	DenyStatus int    `json:"deny_status"`
}

// memoryInfo is the plan of the local tier.
type memoryInfo struct {
	Bytes            int64   `json:"bytes"`
	FilterWindowSecs float64 `json:"filter_window_seconds"`
	FilterClients    int     `json:"filter_clients"`
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
}

func (s *Server) describe() serverInfo {
	plan := s.limiter.Plan()
	info := serverInfo{
		Version: s.config.Version, Go: runtime.Version(),
		UptimeSeconds: time.Since(s.started).Seconds(),
		DecideAPI:     s.config.DecideAPI,
		Memory: memoryInfo{
			Bytes: plan.Memory, FilterWindowSecs: plan.Window.Seconds(), FilterClients: plan.Clients,
		},
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
	return info
}

func describeRule(p *fastlimit.RulePlan) ruleInfo {
	c := &p.Config
	return ruleInfo{
		Name: c.Name, Rate: c.Rate.String(), Burst: c.Burst, Cost: c.Cost, Mode: c.Mode.String(),
		EscalateAt: *c.EscalateAt, Strict: c.Strict, Filter: p.Filter,
		SketchCells: p.Cells, Buckets: p.Buckets, Bytes: p.Bytes, Carries: p.RequestsPerSecond,
		OnFailure: c.OnFailure.String(), BurstBound: p.AtOnce(),
	}
}
