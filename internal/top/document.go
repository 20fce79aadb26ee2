// Package top is what "fastlimit top" shows of GET /v1/top: a table to print, or a screen controlled by keys.
// A [View] holds what is shown and turns keys into changes of it; it has neither terminal nor network, so
// tests need none.
//
// Clients choose the text of keys. Every text goes through [cell], after which it is
// printable ASCII of a known width.
package top

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// Document is the part of GET /v1/top that is shown. Fields that a node does not send are zero: older nodes
// have neither totals nor limits.
type Document struct {
	Clients []Client `json:"clients"`
	Totals  *Totals  `json:"totals"`
}

// Groups is GET /v1/top?by=net.
type Groups struct {
	By       string  `json:"by"`
	Requests float64 `json:"requests"` // per second, like all here
	Groups   []Group `json:"groups"`
	Totals   *Totals `json:"totals"`
}

// Group is a group of requests that have something in common.
type Group struct {
	Group  string  `json:"group"`
	Rate   float64 `json:"rate"`
	Error  float64 `json:"error"`
	Denied float64 `json:"denied"`
	Share  float64 `json:"share"`
}

// DecodeGroups reads a body.
func DecodeGroups(body []byte) (*Groups, error) {
	g := new(Groups)
	if err := json.Unmarshal(body, g); err != nil {
		return nil, err
	}
	if g.Groups == nil {
		return nil, errNoClients
	}
	return g, nil
}

// Client is one client of a rule.
type Client struct {
	Rule     string   `json:"rule"`
	Key      string   `json:"key"`
	Rate     float64  `json:"rate"` // units/s, like the next three
	Error    float64  `json:"error"`
	Denied   float64  `json:"denied"`
	Limit    *float64 `json:"limit"` // nil: none, or unknown
	Share    *float64 `json:"share"` // likewise
	Override bool     `json:"override"`
	Mode     string   `json:"mode"`
	BannedBy string   `json:"banned_by"`
	Banned   float64  `json:"banned_for"` // seconds
	Nodes    []string `json:"nodes"`
	Parts    []string `json:"key_parts"` // nil: no request can name it
}

// name identifies the client: the parts of its key as requests take them, or else its text.
func (c *Client) name() string {
	if len(c.Parts) == 0 {
		return cell(c.Key)
	}
	texts := make([]string, len(c.Parts))
	for i, p := range c.Parts {
		texts[i] = word(p)
	}
	return strings.Join(texts, " ")
}

// Totals are per second, of the node that was asked.
type Totals struct {
	Requests    float64 `json:"requests"`
	Admitted    float64 `json:"admitted"`
	Denied      float64 `json:"denied"`
	Rules       []Rule  `json:"rules"`
	Clients     uint64  `json:"distinct_clients"`
	Bans        int     `json:"bans"`
	Connections int     `json:"connections"`
	Store       *Store  `json:"store"`
	Uptime      float64 `json:"uptime_seconds"`

	UntrustedProxies []string `json:"untrusted_proxies"`
}

// warning is about proxies that are not configured, or "".
func (t *Totals) warning() string {
	if t == nil || len(t.UntrustedProxies) == 0 {
		return ""
	}
	var all []string
	for _, p := range t.UntrustedProxies {
		all = append(all, cell(p))
	}
	return "WARNING: other clients come through " + strings.Join(all, ", ") + ": all of them count as one client until trusted_proxies names it"
}

// Rule is one rule's decisions, per second.
type Rule struct {
	Rule     string  `json:"rule"`
	Mode     string  `json:"mode"`
	Admitted float64 `json:"admitted"`
	Denied   float64 `json:"denied"`
	Bans     int     `json:"bans"`
	LiveFor  float64 `json:"live_for"` // seconds until it is as in the file again; 0: it is
}

// Store is the store that nodes share.
type Store struct {
	Name       string  `json:"name"`
	State      string  `json:"state"`
	Operations float64 `json:"operations"` // per second
}

// errNoClients means that a body is not from GET /v1/top.
var errNoClients = errors.New("not a list of clients")

// Decode reads a body. Other services may answer with JSON too: clients must be there, even if empty.
func Decode(body []byte) (*Document, error) {
	d := new(Document)
	if err := json.Unmarshal(body, d); err != nil {
		return nil, err
	}
	if d.Clients == nil {
		return nil, errNoClients
	}
	return d, nil
}

// Orders of clients, as in GET /v1/top?sort=.
const (
	ByRate   = "rate"
	byDenied = "denied"
	byShare  = "share"
	byKey    = "key"
)

// sort orders clients locally, so that a key need not wait for the node.
func (d *Document) sort(by string) {
	share := func(c *Client) float64 {
		if c.Share == nil {
			return -1
		}
		return *c.Share
	}
	slices.SortStableFunc(d.Clients, func(a, b Client) int {
		first := 0
		switch by {
		case byDenied:
			first = cmp.Compare(b.Denied, a.Denied)
		case byShare:
			first = cmp.Compare(share(&b), share(&a))
		case byKey:
			return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Rule, b.Rule))
		}
		return cmp.Or(first, cmp.Compare(b.Rate, a.Rate))
	})
}
