package suggest

import (
	"encoding/json"
	"time"

	"github.com/fastlimit/fastlimit/internal/replay"
)

// Report is what the logs say about limits. Its JSON form is that of "fastlimit suggest -o json": fields are
// only ever added.
type Report struct {
	Requests int    `json:"requests"`
	Skipped  int    `json:"skipped"` // lines that could not be parsed
	Late     int    `json:"late"`    // counted later than their time
	First    string `json:"first,omitempty"`
	Last     string `json:"last,omitempty"` // times, RFC 3339
	Spare    string `json:"spare"`
	// WholeSeconds reports that the log has no fractions of a second: all requests of a
	// second count as if they came at once, so real clients need less.
	WholeSeconds bool     `json:"whole_seconds"`
	Busiest      *Busiest `json:"busiest,omitempty"` // nil: there are hardly any requests
	Keys         []Key    `json:"keys"`
	// Config is a configuration file with the suggested rules; "" if there are none.
	Config       string           `json:"config"`
	SkippedLines []replay.Skipped `json:"skipped_lines,omitempty"`
	Warnings     []string         `json:"warnings,omitempty"`
}

// Key is the result for one way to distinguish clients.
type Key struct {
	Rule     string    `json:"rule"` // name of the suggested rule
	Key      partNames `json:"key"`  // as a configuration file has it
	Paths    []string  `json:"paths,omitempty"`
	Requests uint64    `json:"requests"` // to which the rule applies
	Clients  int       `json:"clients"`  // examined
	// Sampled is 1 if all clients were examined. If memory was too small it is n: one client in n was, and
	// Counted is the requests of these.
	Sampled uint64 `json:"sampled"`
	Counted uint64 `json:"counted"`
	Rows    []Row  `json:"rates"`               // ascending; none without a request
	Chosen  string `json:"suggested,omitempty"` // rate of the row that is suggested
	// Attackers are left out of the choice, the highest need first.
	Attackers []Attacker `json:"attackers"`

	chosen   int // index of the suggested row
	suspects int // of Attackers: taken for one beforehand
	name     string
}

// Row is one rate: the bursts that clients would have needed, and what the suggested burst
// would have shed.
type Row struct {
	Rate string `json:"rate"`
	// The burst that so many percent of the clients would have needed at most, those
	// that look like attacks included.
	P50  uint64 `json:"p50"`
	P90  uint64 `json:"p90"`
	P99  uint64 `json:"p99"`
	P999 uint64 `json:"p99.9"`
	Max  uint64 `json:"max"`

	// Needed is the burst that spares the wanted share of the clients, without those
	// that look like attacks; Burst is that, rounded up.
	Needed uint64 `json:"needed"`
	Burst  uint64 `json:"burst"`

	// With this burst:
	ClientsShed   int     `json:"clients_shed"` // denied at least once
	RequestsShed  uint64  `json:"requests_shed"`
	ClientsShare  float64 `json:"clients_share"` // of the clients examined, 0 to 1
	RequestsShare float64 `json:"requests_share"`
	// InAMinute is what a client over its limit gets within a minute at most.
	InAMinute uint64 `json:"in_a_minute"`
	// Attackers is how many clients look like attacks at this rate.
	Attackers int `json:"attackers"`

	pace  pace
	drain time.Duration // of a full bucket
}

// partNames are the parts of a key. In JSON a single one is a string; several are a list.
type partNames []string

// MarshalJSON implements [json.Marshaler].
func (k partNames) MarshalJSON() ([]byte, error) {
	if len(k) == 1 {
		return json.Marshal(k[0])
	}
	return json.Marshal([]string(k))
}

// Attacker is a client that looks like an attack.
type Attacker struct {
	Key      string   `json:"key"` // see package keytext
	Requests uint64   `json:"requests"`
	Share    float64  `json:"share"`     // of the requests, 0 to 1
	Needed   uint64   `json:"needed"`    // burst that it would have needed at the suggested rate
	Parts    []string `json:"key_parts"` // of Key; null: one is cut, or is not UTF-8
}
