package liverules

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/field"
	"github.com/fastlimit/fastlimit/internal/operator"
	"github.com/fastlimit/fastlimit/internal/safetext"
	"github.com/fastlimit/fastlimit/internal/strictjson"
)

// change is what somebody wants to change of a rule. Its fields are as in the file, "" and 0 for what stays.
type change struct {
	Rule, Mode, Rate string
	Burst            uint64
}

// body is that of PATCH /v1/rules/NAME.
type body struct {
	Mode  string             `json:"mode"`
	Rate  string             `json:"rate"`
	Burst *uint64            `json:"burst"`
	For   *operator.Duration `json:"for"`

	AllNodes bool `json:"all_nodes"`
}

// change converts the body to a change of a rule, and for how long. The error has a method HTTPStatus.
func (b *body) change(rule string) (c change, life time.Duration, err error) {
	c = change{Rule: rule, Mode: b.Mode, Rate: b.Rate}
	if b.Burst != nil {
		if c.Burst = *b.Burst; c.Burst == 0 {
			return c, 0, operator.Refuse(http.StatusUnprocessableEntity, "burst: 0 admits nobody; want 1 or more")
		}
	}
	if life, err = b.For.Life(); err == nil {
		err = c.check()
	}
	return c, life, err
}

const example = `send for example {"mode":"shadow","for":"30m"} or {"rate":"50/s","burst":100}`

var wants = map[string]string{"mode": "enforce or shadow", "rate": `a text such as "50/s"`, "burst": "a whole number above 0", "all_nodes": "true or false"}

// on applies the change, which has been checked.
func (c *change) on(rc *fastlimit.RuleConfig) {
	switch c.Mode {
	case fastlimit.Enforce.String():
		rc.Mode = fastlimit.Enforce
	case fastlimit.Shadow.String():
		rc.Mode = fastlimit.Shadow
	}
	if c.Rate != "" {
		rc.Rate, _ = fastlimit.ParseRate(c.Rate)
	}
	if c.Burst != 0 {
		rc.Burst = c.Burst
	}
}

// text is the change in the words of a request.
func (c *change) text() string {
	var words []string
	if c.Mode != "" {
		words = append(words, "mode="+c.Mode)
	}
	if c.Rate != "" {
		words = append(words, "rate="+c.Rate)
	}
	if c.Burst != 0 {
		words = append(words, "burst="+strconv.FormatUint(c.Burst, 10))
	}
	return strings.Join(words, " ")
}

// check says what is wrong with a change alone. The limiter checks whether the rule is still valid.
func (c *change) check() error {
	if *c == (change{Rule: c.Rule}) {
		return operator.Refuse(http.StatusBadRequest, "nothing to change: %s", example)
	}
	if c.Mode != "" && c.Mode != fastlimit.Enforce.String() && c.Mode != fastlimit.Shadow.String() {
		return operator.Refuse(http.StatusUnprocessableEntity, "mode: %s is not a mode; want enforce or shadow", safetext.Quote(c.Mode, 64))
	}
	if c.Rate == "" {
		return nil
	}
	if _, err := fastlimit.ParseRate(c.Rate); err != nil {
		return operator.Refuse(http.StatusUnprocessableEntity, "rate: %s", operator.First(err))
	}
	return nil
}

// over returns the change with a later one applied on top.
func (c *change) over(later change) change {
	if later.Mode == "" {
		later.Mode = c.Mode
	}
	if later.Rate == "" {
		later.Rate = c.Rate
	}
	if later.Burst == 0 {
		later.Burst = c.Burst
	}
	return later
}

// Change makes the change in a body, JSON such as {"mode":"shadow","for":"30m"}, on top of what is live for
// the rule. When it returns the rule is changed, with "all_nodes":true also on the other nodes of the cluster
// that could be reached. by names the caller, for the log. The error has a method HTTPStatus.
func (s *Set) Change(ctx context.Context, rule string, b []byte, by string) (any, error) {
	var want body
	if err := strictjson.Decode(b, &want); err != nil {
		return nil, operator.Refuse(http.StatusBadRequest, "the body is not a change of a rule: %v; %s", operator.WrongType(err, wants), example)
	}
	c, life, err := want.change(rule)
	if err == nil && want.AllNodes && s.peers() == nil {
		err = errAlone
	}
	if err != nil {
		return nil, err
	}
	shown, err := s.make(c, life, by, want.AllNodes)
	if err != nil {
		return nil, err
	}
	if want.AllNodes {
		shown.Nodes = s.askAll(ctx)
	}
	return shown, nil
}

var errAlone = operator.Refuse(http.StatusUnprocessableEntity, "this node is not in a cluster: leave out --all-nodes")

func (s *Set) make(c change, life time.Duration, by string, forAll bool) (*Shown, error) {
	s.config.Changing.Lock()
	defer s.config.Changing.Unlock()
	file, all := s.current()
	rule := c.Rule
	at := find(file, rule)
	if at < 0 {
		return nil, s.noRule(rule)
	}
	next := live{change: c, by: by, until: time.Now().Add(life)}
	if was := slices.IndexFunc(all, func(l live) bool { return l.Rule == rule }); was >= 0 {
		next.change = all[was].over(c)
	}
	rest := append(without(all, rule), next)
	if err := s.config.Apply(changed(file, rest)); err != nil {
		return nil, refused(rule, err)
	}
	s.set(file, rest)
	s.config.Log.Info("live rule set", withScope(forAll, slog.String("by", by), slog.String("rule", rule), slog.String("change", next.text()),
		slog.Duration("for", life), slog.Time("until", next.until.UTC()))...)
	if forAll {
		s.share(&next, false)
	}
	return s.shown(&file[at], &next), nil
}

// Undo reverts a rule now, here or on all nodes. The error has a method HTTPStatus.
func (s *Set) Undo(ctx context.Context, rule string, forAll bool, by string) (any, error) {
	if forAll && s.peers() == nil {
		return nil, errAlone
	}
	shown, err := s.undo(rule, by, forAll)
	if err != nil {
		return nil, err
	}
	if forAll {
		shown.Nodes = s.askAll(ctx)
	}
	return shown, nil
}

func (s *Set) undo(rule, by string, forAll bool) (*Shown, error) {
	s.config.Changing.Lock()
	defer s.config.Changing.Unlock()
	file, all := s.current()
	at, rest := find(file, rule), without(all, rule)
	switch {
	case at < 0:
		return nil, s.noRule(rule)
	case len(rest) == len(all) && (!forAll || s.known(rule) == version{}):
		return nil, operator.Refuse(http.StatusNotFound, "rule %s has not been changed: it is as in the file", rule)
	}
	if err := s.config.Apply(changed(file, rest)); err != nil {
		return nil, refused(rule, err)
	}
	s.set(file, rest)
	s.config.Log.Info("live rule ended", withScope(forAll, slog.String("by", by), slog.String("rule", rule))...)
	if forAll {
		// Others may keep it for as long as anybody could have asked for.
		s.share(&live{change: change{Rule: rule}, by: by, until: time.Now().Add(operator.MaxFor)}, true)
	}
	return s.shown(&file[at], nil), nil
}

// withScope adds to a log line that a change is for all nodes.
func withScope(forAll bool, attrs ...any) []any {
	if forAll {
		attrs = append(attrs, slog.Bool("all_nodes", true))
	}
	return attrs
}

func without(all []live, rule string) []live {
	return slices.DeleteFunc(slices.Clone(all), func(l live) bool { return l.Rule == rule })
}

// noRule is the error for an unknown name. Rules made from prefixes come after their rule.
func (s *Set) noRule(name string) error {
	var have []string
	for i := range s.file {
		have = append(have, s.file[i].Limit.Name)
	}
	return operator.NoRule(name, have)
}

// refused is why the rules are not valid with a change: usually because of the rule itself.
func refused(rule string, err error) error {
	if all := field.All(err); len(all) > 0 {
		e, of := all[0], ""
		if e.Rule != rule && e.Rule != "" {
			of = "rule " + e.Rule + ": "
		}
		return operator.Refuse(http.StatusUnprocessableEntity, "%s%s: %s; %s", of, strings.ToLower(e.Field), e.Problem, e.Fix)
	}
	if _, ok := errors.AsType[interface {
		error
		HTTPStatus() int
	}](err); ok {
		return err
	}
	return operator.Refuse(http.StatusUnprocessableEntity, "the rules would not be valid: %v", err)
}
