package replay

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/limit"
)

// Report is the result of a replay. Fields are only ever added: its JSON form is part of the contract of
// "fastlimit replay -o json".
type Report struct {
	Requests int      `json:"requests"` // judged
	Skipped  int      `json:"skipped"`  // lines that could not be parsed
	Allowed  int      `json:"allowed"`
	Denied   int      `json:"denied"`
	Clients  []Client `json:"clients"` // all clients that were denied, most denied first

	Late         int          `json:"late"`          // judged later than their time
	FalseDenials int          `json:"false_denials"` // P1: 0
	Rules        []RuleReport `json:"rules"`         // in the order of the policy
	First        string       `json:"first,omitempty"`
	Last         string       `json:"last,omitempty"` // times, RFC 3339
	SkippedLines []Skipped    `json:"skipped_lines,omitempty"`
	Warnings     []string     `json:"warnings,omitempty"`
}

// Client is a client of one rule that was denied.
type Client struct {
	Rule     string `json:"rule"`     // denyList for one on the deny list
	Key      string `json:"key"`      // see package keytext
	Requests int    `json:"requests"` // to which the rule applied
	Denied   int    `json:"denied"`   // by this rule
	// OverLimit reports that no denied request would have fitted into an exact
	// bucket filled with what this client was admitted.
	OverLimit bool `json:"over_limit"`
	// ExactDenied is what an exact bucket of its own would have denied.
	ExactDenied int      `json:"exact_denied"`
	Parts       []string `json:"key_parts"` // of Key; null: one is cut, or is not UTF-8
}

// denyList stands in for the name of a rule where the deny list decided.
const denyList = "deny"

// RuleReport is what one rule decided. For shadow rules only stages are counted, not
// clients or excess.
type RuleReport struct {
	Name        string        `json:"rule"`
	Mode        string        `json:"mode"`
	Algorithm   string        `json:"algorithm"`
	Rate        string        `json:"rate"`
	Burst       uint64        `json:"burst"`
	Stages      []StageReport `json:"stages"` // stages that decided something
	ExactDenied int           `json:"exact_denied"`
	// Excess is the highest level above the burst, or the number of a window or log, in
	// units, that the limiter let any client reach; ExcessBound is what P2 allows.
	Excess      float64 `json:"excess"`
	ExcessBound float64 `json:"excess_bound"`
	Evictions   uint64  `json:"evictions"` // buckets lost: P2 may not hold
}

// StageReport is the number of decisions by one stage.
type StageReport struct {
	Stage   string `json:"stage"`
	Allowed uint64 `json:"allowed"`
	Denied  uint64 `json:"denied"`
}

// Skipped is a line that could not be parsed.
type Skipped struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line"`
	Reason string `json:"reason"`
	Text   string `json:"text"` // its start, in Go syntax
}

const (
	showSkipped     = 5  // lines
	showSkippedText = 80 // bytes of each
)

func newSkipped(file string, line int, reason error, text []byte) Skipped {
	cut := ""
	if len(text) > showSkippedText {
		text, cut = text[:showSkippedText], "…"
	}
	return Skipped{File: file, Line: line, Reason: reason.Error(), Text: fmt.Sprintf("%+q%s", text, cut)}
}

// skip counts a line that was left out, and keeps the first few as examples: the first
// tell a wrong format from a damaged line.
func (r *Reading) skip(s Skipped) {
	r.Skipped++
	if len(r.SkippedLines) < showSkipped {
		r.SkippedLines = append(r.SkippedLines, s)
	}
}

// take copies the summary of the logs.
func (r *Report) take(from *Reading) {
	r.Skipped, r.Late, r.SkippedLines, r.Warnings = from.Skipped, from.Late, from.SkippedLines, from.Warnings
	r.First, r.Last = from.First, from.Last
}

// sortClients makes the order independent of that of maps, so that two runs over a
// log give equal reports.
func (r *Report) sortClients() {
	slices.SortFunc(r.Clients, func(a, b Client) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Key, b.Key),
			cmp.Compare(b.Requests, a.Requests))
	})
}

// excessBound is θ·B + 1 of P2, where θ is the rule's escalate_at and the 1 is for the filter, which admits a
// client on first sight. Rounding of the clock adds less than 1 µs of the rate to a bucket.
func excessBound(rp *limit.RulePlan) float64 {
	bound := rp.Config.Rate.PerSecond() / 1e6
	if rp.Config.Algorithm.Periodic() {
		bound = 0
	}
	if !rp.Config.Strict {
		bound += *rp.Config.EscalateAt * float64(rp.Config.Burst)
	}
	if rp.Filter {
		bound++
	}
	return bound
}

// periodic reports whether the rule counts units in periods, and has no burst.
func (r *RuleReport) periodic() bool {
	for a := range bucket.NumAlgorithms {
		if a.String() == r.Algorithm {
			return a.Periodic()
		}
	}
	return false
}

// addStages copies the counters of a rule.
func (r *RuleReport) addStages(s fastlimit.RuleStats) {
	for _, stage := range limit.Stages() {
		if s.Allowed[stage]+s.Denied[stage] > 0 {
			r.Stages = append(r.Stages, StageReport{stage.String(), s.Allowed[stage], s.Denied[stage]})
		}
	}
	r.Evictions = s.Evictions
}
