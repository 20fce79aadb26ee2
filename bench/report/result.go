// Package report holds the results of measurements with the machine they were
// measured on, and writes them as JSON, as text for a terminal, and as one HTML page that
// needs nothing else, with charts drawn as SVG.
package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// Report is the outcome of one run. Its JSON form is the output of
// `go run ./bench … -o json`.
type Report struct {
	Environment Environment `json:"environment"`
	Results     []Result    `json:"results"`
}

// Environment describes the machine and the program; figures mean nothing without
// it.
type Environment struct {
	CPU      string            `json:"cpu"`
	Cores    int               `json:"cores"`
	Kernel   string            `json:"kernel"`
	Go       string            `json:"go"`
	Commit   string            `json:"commit"`
	Date     time.Time         `json:"date"`
	Flags    []string          `json:"flags,omitempty"`
	Versions map[string]string `json:"versions,omitempty"` // of the programs measured beside
}

// Result is one limiter under one workload. Pointers are nil where a figure
// does not apply.
type Result struct {
	Group    string `json:"group"`    // local, algorithms, accuracy, memory, http, redis, redis-http, redis-faults, postgres, cluster, overrides, bans
	Workload string `json:"workload"` // for example zipf-1.1
	Limiter  string `json:"limiter"`
	Setup    string `json:"setup,omitempty"` // how it was configured
	Cores    int    `json:"cores,omitempty"`
	Keys     int64  `json:"keys,omitempty"`
	Requests int64  `json:"requests,omitempty"`
	// Scale is the number of clients by that of the workload's full size.
	Scale float64 `json:"scale,omitempty"`

	NsPerOp     *float64 `json:"ns_per_op,omitempty"` // wall time of one core, or of all together
	AllocsPerOp *float64 `json:"allocs_per_op,omitempty"`
	PerSecond   *float64 `json:"per_second,omitempty"`
	CPUMicros   *float64 `json:"cpu_us_per_request,omitempty"`

	Syscalls      *float64 `json:"system_calls_per_request,omitempty"` // of the server
	ConnBytes     *float64 `json:"bytes_per_idle_connection,omitempty"`
	GeneratorIdle *float64 `json:"generator_idle,omitempty"` // share of its polls that found nothing; below 0.03 it was the limit

	FalseDenials *int64 `json:"false_denials,omitempty"` // that the client's own admitted requests do not explain
	// ConformingDenied are denials of clients who kept to their limit with all
	// that they sent: the false denials that hurt.
	ConformingDenied *int64   `json:"conforming_denied,omitempty"`
	Excess           *float64 `json:"excess,omitempty"`         // units above burst, of the worst client
	Denied           *float64 `json:"denied,omitempty"`         // share of requests
	DeniedExactly    *float64 `json:"denied_exactly,omitempty"` // share that one exact bucket per client would deny
	Escalated        *float64 `json:"escalated,omitempty"`      // share checked exactly
	// Of a store, Redis or PostgreSQL.
	StorePerRequest *float64 `json:"redis_per_request,omitempty"`
	StorePerSecond  *float64 `json:"redis_per_second,omitempty"`
	StoreReads      *float64 `json:"redis_reads_per_request,omitempty"`  // buckets read, as Redis counts them
	FloodPerSecond  *float64 `json:"flood_per_second,omitempty"`         // requests of the client that floods
	StoreCPUMicros  *float64 `json:"redis_cpu_us_per_request,omitempty"` // of its processes
	StoreBytes      *int64   `json:"store_bytes,omitempty"`              // of the table, index included
	Speedup         *float64 `json:"speedup,omitempty"`                  // over the usual way, median over rounds
	HitterAdmitted  *float64 `json:"hitter_admitted_ratio,omitempty"`    // of a client over its limit, to that limit

	// What a node sends to each other node, and what of one client it leaves
	// out: as it knows it, and as it was, the worst of all clients.
	SyncBytes   *float64 `json:"bytes_per_second_per_peer,omitempty"`
	SyncPackets *float64 `json:"packets_per_second_per_peer,omitempty"`
	SyncBound   *float64 `json:"error_bound_per_second,omitempty"`
	SyncUntold  *float64 `json:"untold_per_second,omitempty"`

	// Under a flood whose senders are shut out, or answered: requests that it may send for each
	// second of CPU time, the CPU time in a second, of the server's processes and of the
	// kernel for packets that it receives, both without the flood, and how long the flood got
	// answers.
	Survived    *float64 `json:"survived_per_cpu_second,omitempty"`
	ProcessCPU  *float64 `json:"process_cpu_per_second,omitempty"`
	ReceiverCPU *float64 `json:"receiver_cpu_per_second,omitempty"`
	IdleCPU     *float64 `json:"idle_cpu_per_second,omitempty"`
	QuietMillis *float64 `json:"quiet_after_ms,omitempty"`

	// Verdict is what the figures come to where a limiter may fail in kind:
	// the flood of package inproc.
	Verdict string `json:"verdict,omitempty"`

	RSSBytes *int64 `json:"rss_bytes,omitempty"`
	// PlannedBytes is what RSSBytes was planned to be at most, beside the program.
	PlannedBytes *int64 `json:"planned_bytes,omitempty"`
	RSSGrowth    *int64 `json:"rss_growth_bytes,omitempty"` // since warm-up

	// Under a fault of Redis: how long a request may wait for it, the share of
	// requests decided without it, the share admitted of those by failure
	// policy, and how long after the fault Redis was used again.
	TimeoutMicros    *float64           `json:"timeout_us,omitempty"`
	Degraded         *float64           `json:"without_redis,omitempty"`
	DegradedAdmitted map[string]float64 `json:"without_redis_admitted,omitempty"`
	BackMillis       *float64           `json:"back_after_ms,omitempty"`
	// LagMicros are percentiles of how late a sleep of 1 ms ended meanwhile:
	// what the machine adds to every wait.
	LagMicros map[string]float64 `json:"lag_us,omitempty"`

	// LatencyMicros are percentiles: p50, p90, p99, p99.9, max.
	LatencyMicros map[string]float64 `json:"latency_us,omitempty"`
	// Series are plots by name: shed (seconds, share denied), latency_us
	// (percentile, µs from the moment a request was due) and
	// latency_omission_us (the same from the moment it was sent).
	Series map[string][][2]float64 `json:"series,omitempty"`
	Error  string                  `json:"error,omitempty"` // why figures are missing, or of a part
}

// WriteJSON writes the report in its JSON form.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	return enc.Encode(r)
}

// Read reads a report in JSON from a file.
func Read(name string) (r Report, err error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return r, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return r, fmt.Errorf("%s: not a report of bench -o json: %w", name, err)
	}
	return r, nil
}

// Progress is called before each step with the number of steps done and a name for
// the next one. It may be nil.
type Progress func(done, total int, what string)

// Tell calls p, unless it is nil.
func (p Progress) Tell(done, total int, format string, args ...any) {
	if p != nil {
		p(done, total, fmt.Sprintf(format, args...))
	}
}
