package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/keytext"
	"github.com/fastlimit/fastlimit/policy"
)

// Who banned a client: Rule.BannedBy.
const (
	byOperator = "operator"
	byRule     = "rule"
)

// rule answers for a client of a rule. Its key is as in a request, or as shown to people.
func (n *Node) rule(r *fastlimit.Rule, written []string, now time.Time) (*Rule, error) {
	parts := n.Engine.ReadKey(r, written)
	if !n.Values && !slices.Equal(n.Engine.HideKey(r, parts), parts) {
		return nil, errValue
	}
	parts, err := n.Engine.RevealKey(r, parts, n.names(r.Name()))
	if err != nil {
		return nil, err
	}
	f, err := n.Engine.Foresee(r, parts, 0, now)
	if err != nil {
		return nil, err
	}
	shown := n.Engine.HideKey(r, parts)
	return n.describe(r, policy.KeyText{Text: keytext.Join(shown), Parts: shown}, &f), nil
}

// describe fills in a Rule from the foresight.
func (n *Node) describe(r *fastlimit.Rule, key policy.KeyText, f *policy.Foresight) *Rule {
	d := f.Decision
	a := &Rule{
		Rule: r.Name(), Mode: r.Config().Mode.String(), Key: key.Text, Parts: key.Parts,
		Allowed: f.Allowed(), Stage: d.Stage.String(), Level: f.Level, Store: f.Unsure,
		Nodes: n.countedBy(r, key.Text), LiveFor: n.LiveFor(r.Name()).Seconds(),
	}
	a.everywhere, _, _ = n.Engine.Scope(r)
	if d.Remaining != fastlimit.RemainingUnknown {
		a.Remaining = &d.Remaining
	}
	if f.Suspicion >= 0 {
		a.Suspicion = &f.Suspicion
	}
	switch {
	case f.Waits:
		a.Waits = d.RetryAfter.Seconds()
	case !a.Allowed:
		a.RetryAfter = d.RetryAfter.Seconds()
	}
	if d.Stage == fastlimit.StageBan {
		a.BannedFor, a.BannedBy = d.RetryAfter.Seconds(), byRule
	}
	switch f.List {
	case policy.ListBan:
		a.BannedBy = byOperator
	case policy.ListAllow, policy.ListDeny:
		a.List = f.List.String()
	}
	switch f.Limit {
	case nil:
		a.Override = &Override{Unlimited: true}
	case r:
		a.Limit = limitText(r)
	default:
		c := f.Limit.Config()
		a.Limit, a.Override = limitText(f.Limit), &Override{Rate: c.Rate.String(), Burst: c.Burst}
	}
	a.Text = a.sentence(f)
	return a
}

func limitText(r *fastlimit.Rule) string {
	c := r.Config()
	return fmt.Sprintf("%v, burst %d", c.Rate, c.Burst)
}

// sentence puts it into words for a ticket.
func (a *Rule) sentence(f *policy.Foresight) string {
	d := &f.Decision
	switch {
	case a.List == "deny":
		return fmt.Sprintf("%s is on the deny list: all its requests are refused.", a.Key)
	case a.List == "allow":
		return fmt.Sprintf("%s is on the allow list: no rule limits it.", a.Key)
	case a.BannedBy == byOperator:
		return fmt.Sprintf("%s is banned by an operator for another %v.", a.Key, round(d.RetryAfter))
	case f.Limit == nil:
		return fmt.Sprintf("Rule %s does not limit %s: an override exempts it.", a.Rule, a.Key)
	}
	rule, would := fmt.Sprintf("rule %s (%s)", a.Rule, a.Limit), "is"
	if a.Override != nil {
		rule = fmt.Sprintf("its override of rule %s (%s)", a.Rule, a.Limit)
	}
	if a.Mode == fastlimit.Shadow.String() {
		would = "would be"
	}
	text := ""
	switch {
	case d.Stage == fastlimit.StageBan:
		text = fmt.Sprintf("%s %s banned by rule %s for another %v, since it kept exceeding its limit.", a.Key, would, a.Rule, round(d.RetryAfter))
	case f.Waits:
		text = fmt.Sprintf("%s is at the limit of %s: its next request waits %v.", a.Key, rule, round(d.RetryAfter))
	case !d.Allowed:
		text = fmt.Sprintf("%s is over the limit of %s: its next request %s denied, and one fits in %v.", a.Key, rule, would, round(d.RetryAfter))
	case f.Unsure:
		text = fmt.Sprintf("%s is a suspect in %s: the shared store decides about its next request. This node would admit it.", a.Key, rule)
	case d.Stage == fastlimit.StageFilter:
		text = fmt.Sprintf("%s has not been seen by %s lately: its next request is admitted.", a.Key, rule)
	case d.Stage == fastlimit.StageSketch:
		text = fmt.Sprintf("%s is not a suspect in %s: its next request is admitted.", a.Key, rule)
	default:
		text = fmt.Sprintf("%s has used %.4g of the burst of %s: its next request is admitted.", a.Key, f.Level, rule)
	}
	if would != "is" && !d.Allowed {
		text += " The rule is in shadow mode and denies nobody."
	}
	if a.LiveFor > 0 {
		text += fmt.Sprintf(" An operator has changed the rule for another %v.", round(time.Duration(a.LiveFor*float64(time.Second))))
	}
	return text
}

// round drops insignificant digits of a time.
func round(d time.Duration) time.Duration {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second)
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	}
	return max(d.Round(time.Millisecond), time.Millisecond)
}
