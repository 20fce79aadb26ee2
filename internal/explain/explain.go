// Package explain describes, in a document and in sentences, what a node would do with a client's next
// request: by its lists, operators' bans and rules. It changes nothing.
package explain

import (
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/keytext"
	"github.com/fastlimit/fastlimit/internal/operator"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/toptalkers"
)

// Document is the answer to GET /v1/explain without a rule. Its names, and those of Rule, are part of the
// contract.
type Document struct {
	Key     string `json:"key"`
	Allowed bool   `json:"allowed"` // by everything that applies
	List    string `json:"list"`    // allow or deny; "": on neither
	Rules   []Rule `json:"rules"`   // those that apply to a request, or have such keys
	Text    string `json:"text"`    // the verdict in a sentence
}

// Rule is the answer for one rule.
type Rule struct {
	Rule  string   `json:"rule"`
	Mode  string   `json:"mode"`
	Key   string   `json:"key"`
	Parts []string `json:"key_parts"`
	List  string   `json:"list"`
	Limit string   `json:"limit"` // of this client, as "10/h, burst 20"; "": it has none

	// Allowed is about the next request, Stage is what would decide.
	Allowed    bool      `json:"allowed"`
	Stage      string    `json:"stage"`
	Level      float64   `json:"level"`         // units in its bucket
	Remaining  *int64    `json:"remaining"`     // units that fit now; null if no exact bucket is asked
	RetryAfter float64   `json:"retry_after"`   // seconds, 0 if allowed
	Waits      float64   `json:"waits"`         // seconds in the queue before it is admitted
	Suspicion  *float64  `json:"suspicion"`     // from the sketch: from 1 it is checked exactly; null without one
	Store      bool      `json:"store_decides"` // which was not asked
	BannedFor  float64   `json:"banned_for"`    // seconds
	BannedBy   string    `json:"banned_by"`     // operator or rule; "": it is not
	Override   *Override `json:"override"`
	LiveFor    float64   `json:"live_for"` // seconds until the rule is as in the file again; 0: it is
	Nodes      []string  `json:"nodes"`    // that count it among their top talkers
	Text       string    `json:"text"`

	everywhere bool // applies to all requests
}

// Override is a limit that replaces the rule's for a client.
type Override struct {
	Rate      string `json:"rate,omitempty"`
	Burst     uint64 `json:"burst,omitempty"`
	Unlimited bool   `json:"unlimited,omitempty"`
}

// Node answers questions.
type Node struct {
	Engine  *policy.Engine
	Limiter *fastlimit.Limiter
	// Values means that the caller may name clients by values of headers and cookies that others see as
	// hashes. Such a caller can try out values.
	Values bool
	// Talkers are the top talkers, which may be named by hashes and are counted by nodes. It is called for
	// each rule that is answered for, so rank only once.
	Talkers func() []toptalkers.Talker
	// LiveFor is the time until a rule that an operator changed is as in its file again; 0: it is.
	LiveFor func(rule string) time.Duration
}

// names yields the compact names of a rule's clients, looked up when they are needed.
func (n *Node) names(rule string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, t := range n.Talkers() {
			if t.Rule == rule && t.Name != "" && !yield(t.Name) {
				return
			}
		}
	}
}

// countedBy returns the nodes that count a client of a rule among their top talkers.
func (n *Node) countedBy(r *fastlimit.Rule, key string) []string {
	for _, t := range n.Talkers() {
		if t.Rule == r.Name() && n.Engine.TalkerText(r, []byte(t.Name)).Text == key {
			return t.Nodes
		}
	}
	return []string{}
}

// Rule answers for one rule and a client named by its key. The error has a method HTTPStatus.
func (n *Node) Rule(name string, key []string, now time.Time) (*Rule, error) {
	r, ok := n.Limiter.Rule(name)
	if !ok {
		return nil, operator.NoRule(name, n.ruleNames())
	}
	answer, err := n.rule(r, key, now)
	switch {
	case errors.Is(err, errValue):
		return nil, operator.Refuse(http.StatusForbidden, "%v", err)
	case err != nil:
		return nil, operator.Refuse(http.StatusUnprocessableEntity, "key: %s", operator.First(err))
	}
	return answer, nil
}

// errValue is why not everybody may ask about a value.
var errValue = errors.New("without permission to make changes, name clients by the hashes that top shows, not by values of headers or cookies; or send the token (--token-file)")

// Key answers for all rules that have such keys. The error has a method HTTPStatus.
func (n *Node) Key(key []string, now time.Time) (*Document, error) {
	d := &Document{Allowed: true, Rules: []Rule{}}
	var wrong error
	isAddress := len(key) == 1 && keytext.IsAddress(key[0])
	for _, r := range n.Limiter.Rules() {
		if _, byAddress, _ := n.Engine.Scope(r); isAddress && !byAddress {
			continue // a header's value might be an address, which nobody means
		}
		answer, err := n.rule(r, key, now)
		if err != nil {
			wrong = err
			continue
		}
		d.Rules = append(d.Rules, *answer)
	}
	switch {
	case len(d.Rules) == 0 && errors.Is(wrong, errValue):
		return nil, operator.Refuse(http.StatusForbidden, "%v", wrong)
	case len(d.Rules) == 0 && wrong == nil:
		return nil, operator.Refuse(http.StatusUnprocessableEntity, "no rule counts by address alone: name a rule, with all parts of its key")
	case len(d.Rules) == 0:
		return nil, operator.Refuse(http.StatusUnprocessableEntity, "no rule has such a key; the last one checked says: %s", operator.First(wrong))
	}
	d.Key = d.Rules[0].Key
	n.conclude(d)
	return d, nil
}

// Request answers for the rules that apply to a client's request, which has Method, Host, RequestURI and
// Header. The error has a method HTTPStatus.
func (n *Node) Request(client netip.Addr, r *http.Request, now time.Time) (*Document, error) {
	if !n.Values && len(r.Header) > 0 {
		return nil, operator.Refuse(http.StatusForbidden, "%v", errValue)
	}
	direct, err := policy.NewIdentity(policy.Settings{})
	if err != nil {
		return nil, err
	}
	var s policy.Scratch
	var q policy.Request
	if result := n.Engine.Assemble(direct, incoming(client, r), &s, &q); result.Refused != policy.NotRefused {
		return nil, operator.Refuse(http.StatusUnprocessableEntity, "such a request is refused before any rule is checked: %v", result.Refused)
	}
	f := n.Engine.ForeseeRequest(&q, &s, now)
	d := &Document{Key: keytext.Join([]string{q.Client.String()}), Allowed: true, Rules: []Rule{}}
	for i := range f.Rules {
		r := &f.Rules[i]
		d.Rules = append(d.Rules, *n.describe(r.Rule, r.Key, &r.Foresight))
	}
	if len(d.Rules) == 0 {
		d.Text = "No rule applies to such a request."
	}
	if f.List == policy.ListDeny || f.List == policy.ListAllow {
		d.List = f.List.String()
	}
	d.Allowed = f.List == policy.ListNone || f.List == policy.ListAllow
	for i := range d.Rules { // that apply to it
		d.Rules[i].everywhere = true
	}
	n.conclude(d)
	return d, nil
}

// conclude fills in the verdict of all rules: of denials, the one that lasts longest.
func (n *Node) conclude(d *Document) {
	var worst *Rule
	for i := range d.Rules {
		r := &d.Rules[i]
		d.Allowed, d.List = d.Allowed && r.Allowed, max(d.List, r.List)
		if worst == nil || worst.Allowed && !r.Allowed || worst.Allowed == r.Allowed && r.RetryAfter+r.Waits > worst.RetryAfter+worst.Waits {
			worst = r
		}
	}
	if worst == nil {
		return
	}
	d.Text = worst.Text
	switch {
	case worst.List != "" || worst.BannedBy == byOperator: // whatever the rules say
	case worst.Allowed && len(d.Rules) > 1:
		d.Text = fmt.Sprintf("None of %d rules denies the next request of %s.", len(d.Rules), d.Key)
	case !worst.Allowed && !worst.everywhere:
		d.Text = fmt.Sprintf("%s Rule %s applies to some requests only.", worst.Text, worst.Rule)
	}
}

func (n *Node) ruleNames() (all []string) {
	for _, r := range n.Limiter.Rules() {
		all = append(all, r.Name())
	}
	return all
}
