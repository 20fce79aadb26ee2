package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/fastlimit/fastlimit/internal/breakdown"
	"github.com/fastlimit/fastlimit/server/internal/text"
)

// maxTop bounds a reply: about as many clients as a table tracks by default, and more than anybody reads.
const (
	defaultTop = 20
	maxTop     = 1000
)

// TopOrders are what clients can be sorted by; the first is the default.
var TopOrders = []string{"rate", "denied", "share", "key"}

// ErrNotTracked is what Config.Top returns if no clients are tracked.
var ErrNotTracked = errors.New("no client is tracked: top_talkers is 0, or memory is too small for it; set it to 1024, or raise memory")

// TopQuery is what GET /v1/top asks for.
type TopQuery struct {
	N    int    // most clients
	Sort string // one of TopOrders
	Rule string // whose clients; "": of all rules
}

// Top is the document of /v1/top. Its names are part of the contract: fields are added,
// never renamed. All numbers without a unit in their name are per second.
type Top struct {
	Clients []TopClient `json:"clients"`
	Totals  TopTotals   `json:"totals"`
}

// TopClient is a top talker; see [toptalkers.Talker], which counts in units of its rule and over all nodes.
type TopClient struct {
	Rule  string  `json:"rule"`
	Key   string  `json:"key"`
	Rate  float64 `json:"rate"`
	Error float64 `json:"error"`

	Denied   float64  `json:"denied"`             // of Rate; a lower bound, ± Error
	Limit    *float64 `json:"limit"`              // the rate it may sustain; null: it has no limit
	Share    *float64 `json:"share"`              // Rate / Limit
	Override bool     `json:"override,omitempty"` // Limit is not the rule's
	Mode     string   `json:"mode"`               // of the rule
	BannedBy string   `json:"banned_by,omitempty"`
	Banned   float64  `json:"banned_for"` // seconds; 0: it is not
	Nodes    []string `json:"nodes"`
	Parts    []string `json:"key_parts"` // as requests that name a client take them; null: unknown
}

// TopTotals is this node's rates over the last 2 to 3 s.
type TopTotals struct {
	Requests float64   `json:"requests"`
	Admitted float64   `json:"admitted"`
	Denied   float64   `json:"denied"`
	Rules    []TopRule `json:"rules"` // in the order of the configuration

	Clients     uint32    `json:"distinct_clients"` // in the window of the first-seen filter, estimated
	Bans        int       `json:"bans"`             // that run now, by rules and operators
	Connections int       `json:"connections"`
	Store       *TopStore `json:"store,omitempty"`
	Uptime      float64   `json:"uptime_seconds"`

	// UntrustedProxies are addresses through which others come. Those all count as one client until
	// trusted_proxies names the address.
	UntrustedProxies []netip.Addr `json:"untrusted_proxies,omitempty"`
}

// TopRule is a rule's decisions. In shadow mode it only counts what it would deny.
type TopRule struct {
	Rule     string  `json:"rule"`
	Mode     string  `json:"mode"`
	Admitted float64 `json:"admitted"`
	Denied   float64 `json:"denied"`
	Bans     int     `json:"bans"`
	LiveFor  float64 `json:"live_for"` // seconds until it is as in the file again; 0: it is
}

// TopStore is the store that nodes share.
type TopStore struct {
	Name       string  `json:"name"`
	State      string  `json:"state"` // of its circuit breaker
	Operations float64 `json:"operations"`
}

// TopBy is the document of /v1/top?by=net. As in Top, numbers are per second, and names are part of the
// contract.
type TopBy struct {
	By       string            `json:"by"`
	Requests float64           `json:"requests"` // all that belong to a group
	Groups   []breakdown.Share `json:"groups"`
	Totals   TopTotals         `json:"totals"`
}

// topBy answers GET /v1/top?by=net&n=20.
func (f *Front) topBy(w http.ResponseWriter, q url.Values, n int) {
	by, ok := breakdown.Parse(q.Get("by"))
	if !ok {
		problem(w, http.StatusBadRequest, fmt.Sprintf("by=%s: want one of %s", text.Printable(q.Get("by")), strings.Join(breakdown.Names(), ", ")))
		return
	}
	if q.Has("sort") || q.Has("rule") {
		problem(w, http.StatusBadRequest, "by covers all requests, the largest group first: leave out sort and rule")
		return
	}
	b, err := json.Marshal(f.TopBy(by, n))
	writeJSON(w, b, err)
}

// top answers GET /v1/top?n=20&sort=denied&rule=per-ip.
func (f *Front) top(w http.ResponseWriter, r *http.Request) {
	n, ok := number(w, r, "n", defaultTop, maxTop)
	if !ok {
		return
	}
	if given := r.URL.Query(); given.Has("by") {
		f.topBy(w, given, n)
		return
	}
	q := TopQuery{N: n, Sort: TopOrders[0], Rule: r.URL.Query().Get("rule")}
	if given := r.URL.Query(); given.Has("sort") {
		if q.Sort = given.Get("sort"); !slices.Contains(TopOrders, q.Sort) {
			problem(w, http.StatusBadRequest, fmt.Sprintf("sort=%s: want one of %s", text.Printable(q.Sort), strings.Join(TopOrders, ", ")))
			return
		}
	}
	all, err := f.Top(q)
	if err != nil {
		problem(w, http.StatusNotFound, err.Error())
		return
	}
	b, err := json.Marshal(all)
	writeJSON(w, b, err)
}

// number returns a number of a query, from 1 to most, or answers that it is invalid.
func number(w http.ResponseWriter, r *http.Request, name string, absent, most int) (n int, ok bool) {
	q := r.URL.Query()
	if !q.Has(name) {
		return absent, true
	}
	n, err := strconv.Atoi(q.Get(name))
	if err != nil || n < 1 || n > most {
		problem(w, http.StatusBadRequest, fmt.Sprintf("%s=%s: want a whole number from 1 to %d", name, text.Printable(q.Get(name)), most))
		return 0, false
	}
	return n, true
}
