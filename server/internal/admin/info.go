package admin

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit"
)

// Info is the document of /v1/info. Its names are part of the contract: fields are added, never renamed.
// Times are in seconds, as floats, so that readers in any language need no parser for them; what is not
// configured is left out or null.
type Info struct {
	Version       string      `json:"version"`
	Go            string      `json:"go"`
	UptimeSeconds float64     `json:"uptime_seconds"`
	Listen        []Listener  `json:"listen"`
	Admin         string      `json:"admin"`
	Upstream      []string    `json:"upstream,omitempty"` // URLs of the servers behind a proxy
	DecideAPI     bool        `json:"decide_api"`
	AccessLog     string      `json:"access_log,omitempty"` // its file
	Memory        Memory      `json:"memory"`
	Redis         *Store      `json:"redis,omitempty"`    // the store that nodes share, under
	Postgres      *Store      `json:"postgres,omitempty"` // its name in the file
	Connections   Connections `json:"connections"`
	Drain         Drain       `json:"drain"`
	Cluster       *Cluster    `json:"cluster,omitempty"`
	Kernel        *Kernel     `json:"kernel,omitempty"`
	ListFiles     []ListFile  `json:"list_files,omitempty"`
	Rules         []Rule      `json:"rules"`
}

// Kernel describes what drops the packets of banned clients.
type Kernel struct {
	Table   string `json:"table"`
	Mode    string `json:"mode"`
	Up      bool   `json:"up"` // false: it is failing, or in shadow mode
	Bans    int    `json:"bans"`
	MaxBans int    `json:"max_bans"`
}

// ListFile is a file of the allow or deny list.
type ListFile struct {
	List    string    `json:"list"`
	File    string    `json:"file"`
	Entries int       `json:"entries"` // in force
	ReadAt  time.Time `json:"read_at"`
	Error   string    `json:"error,omitempty"` // why they are not the file's current ones
}

// Listener is an address that takes traffic, with its actual port where 0 is configured, and the limit
// headers that it sends.
type Listener struct {
	Address string `json:"address"`
	Mode    string `json:"mode,omitempty"` // of a Unix socket
	// ProxyProtocol are the peers that name their clients by the PROXY protocol.
	ProxyProtocol []netip.Prefix `json:"proxy_protocol,omitempty"`
	TLS           *TLS           `json:"tls,omitempty"`
	// OriginalRequest is the listener's own; empty: that of the top level.
	OriginalRequest string `json:"original_request,omitempty"`

	DenyStatus int      `json:"deny_status"`
	Headers    []string `json:"headers"`    // sets of header fields, the default filled in
	HeadersOn  string   `json:"headers_on"` // the answers that have them
}

// TLS is a listener's certificate.
type TLS struct {
	CertFile string    `json:"cert_file"`
	NotAfter time.Time `json:"not_after"`
}

// Connections are the bounds on connections; max is what the limit on open files allows.
type Connections struct {
	Max                 int     `json:"max"`
	MaxPerClient        int     `json:"max_per_client"`
	MaxStreamsPerClient int     `json:"max_streams_per_client"`
	HeaderBytes         int     `json:"header_bytes"`
	HeaderTimeoutSecs   float64 `json:"header_timeout_seconds"`
	IdleTimeoutSecs     float64 `json:"idle_timeout_seconds"`
	WriteTimeoutSecs    float64 `json:"write_timeout_seconds"`
	Open                int     `json:"open"`
}

// Drain is how the server stops.
type Drain struct {
	DelaySecs   float64 `json:"delay_seconds"`
	TimeoutSecs float64 `json:"timeout_seconds"`
}

// Cluster describes this node and the others. Peers are the other nodes that are up, in order; this node is
// not among them, but counts against max_nodes.
type Cluster struct {
	Name         string   `json:"name"`
	Node         string   `json:"node"`
	Address      string   `json:"address"`
	MaxNodes     int      `json:"max_nodes"`
	IntervalSecs float64  `json:"interval_seconds"`
	LagSecs      float64  `json:"lag_seconds"` // that cluster_bound assumes
	Peers        []string `json:"peers"`
}

// Bound is the most that all nodes together admit of one client: burst + rate·s units in any s seconds; see
// [fastlimit.RulePlan.ClusterBound].
type Bound struct {
	Burst uint64  `json:"burst"`
	Rate  float64 `json:"rate_per_second"`
}

// Store describes the store that nodes share for exact checks.
type Store struct {
	State        string  `json:"state"`
	DistanceSecs float64 `json:"distance_seconds"`
	TimeoutSecs  float64 `json:"timeout_seconds"`
	Late         uint64  `json:"late_operations"`
}

// Memory is the plan of the local tier, without counters. The filter's clients are distinct ones per window;
// 0 seconds mean that no rule uses it.
type Memory struct {
	Bytes            int64   `json:"bytes"`
	FilterWindowSecs float64 `json:"filter_window_seconds"`
	FilterClients    int     `json:"filter_clients"`

	Go any `json:"go,omitempty"` // limits of Go's garbage collector; nil: unknown
}

// Rule is a rule with its share of the memory, and what it promises. Everything is as planned with defaults
// filled in, so it shows what an omitted setting means.
type Rule struct {
	Name       string  `json:"name"`
	Algorithm  string  `json:"algorithm"`
	Rate       string  `json:"rate"`
	Burst      uint64  `json:"burst"`
	Cost       float64 `json:"cost"` // in units
	Mode       string  `json:"mode"`
	MaxWait    float64 `json:"max_wait_seconds"` // 0: nobody waits
	EscalateAt float64 `json:"escalate_at"`
	Strict     bool    `json:"strict"`
	Filter     bool    `json:"first_seen_filter"`

	SketchCells int     `json:"sketch_cells"`
	Buckets     int     `json:"buckets"`
	Bytes       int64   `json:"bytes"`
	Carries     float64 `json:"carries_requests_per_second"` // above it more and more requests are checked exactly

	OnFailure string `json:"on_failure"`

	// LiveSecs is the time until the rule is as configured again; 0: it is.
	LiveSecs float64 `json:"live_seconds,omitempty"`

	SketchLoad float64 `json:"sketch_load"`     // share of the sketch's cells in use
	Evictions  uint64  `json:"exact_evictions"` // of active buckets

	// Audit is the rule's audit; nil if it has none.
	Audit *Audit `json:"audit,omitempty"`

	// BurstBound is the most that P2 admits of one client at once; see
	// [fastlimit.RulePlan.MaxBurst].
	BurstBound uint64 `json:"burst_bound"`
	// ClusterBound is the bound of all nodes together.
	ClusterBound *Bound `json:"cluster_bound,omitempty"`
}

// Audit is the result of counting a sample of a rule's clients exactly.
type Audit struct {
	Clients       int     `json:"clients"` // now
	Requests      uint64  `json:"requests"`
	FalseDenials  uint64  `json:"false_denials"` // of clients within the limit: must be 0
	Excess        uint64  `json:"excess"`        // requests admitted above burst_bound: must be 0
	FalseSuspects uint64  `json:"false_suspects"`
	Peak          float64 `json:"peak_ratio"` // highest level of any of them, divided by burst_bound
}

// info answers GET /v1/info, indented for people.
func (f *Front) info(w http.ResponseWriter, _ *http.Request) {
	b, err := json.MarshalIndent(f.Info(), "", "  ")
	writeJSON(w, b, err)
}

// AddPlan adds the rules and the plan of their memory. With a lag, after which counts arrive, it adds the
// bounds of all nodes of a cluster together.
func (i *Info) AddPlan(p *fastlimit.Plan, lag time.Duration) {
	i.Memory.Bytes, i.Memory.FilterWindowSecs, i.Memory.FilterClients = p.Memory, p.Window.Seconds(), p.Clients
	for k := range p.Rules {
		r := &p.Rules[k]
		c := &r.Config
		rule := Rule{
			Name: c.Name, Algorithm: c.Algorithm.String(), Rate: c.Rate.String(), Burst: c.Burst, Cost: float64(c.Cost) / float64(c.CostScale()), Mode: c.Mode.String(),
			MaxWait:    c.MaxWait.Seconds(),
			EscalateAt: *c.EscalateAt, Strict: c.Strict, Filter: r.Filter,
			SketchCells: r.Cells, Buckets: r.Buckets, Bytes: r.Bytes, Carries: r.RequestsPerSecond,
			OnFailure: c.OnFailure.String(), BurstBound: r.MaxBurst(),
		}
		if lag > 0 {
			rate, burst := r.ClusterBound(lag)
			rule.ClusterBound = &Bound{Burst: burst, Rate: rate}
		}
		i.Rules = append(i.Rules, rule)
	}
}
