package policy

import (
	"context"
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit"
)

// Fields gives access to the headers and cookies of a request. Values are
// borrowed for the call of [Engine.Decide]; ok is false where there is none.
type Fields interface {
	Header(name string) (value []byte, ok bool) // the first, if there are several
	Cookie(name string) (value []byte, ok bool)
}

// Request is what a policy looks at. All bytes are borrowed for the call.
type Request struct {
	Client netip.Addr // resolved, see [Identity]; unmapped, without zone
	Method []byte     // upper case
	Host   []byte     // canonical, see [AppendHost]; may be empty
	Path   []byte     // canonical, see [AppendPath]
	Fields Fields     // nil: neither headers nor cookies
}

// ListVerdict tells whether a list decided.
type ListVerdict uint8

// The verdicts of the allow and deny lists.
const (
	ListNone  ListVerdict = iota // on neither list
	ListAllow                    // never limited
	ListDeny                     // refused without a retry time
)

// Verdict is the decision on one request. It is a plain value.
type Verdict struct {
	Decision fastlimit.Decision
	// Rule is the rule that the decision is by: nil if a list decided or no
	// enforced rule applied.
	Rule *fastlimit.Rule
	List ListVerdict
}

// Engine judges requests by a compiled policy. It is immutable and safe for
// concurrent use.
type Engine struct {
	lim *fastlimit.Limiter
}

// New compiles the settings. The rules of lim are those of s.Rules in the same
// order. The error joins everything that is wrong.
func New(lim *fastlimit.Limiter, s Settings) (*Engine, error) {
	return &Engine{lim: lim}, nil
}

// Scratch is the working memory of one call at a time. The zero value is
// ready; reuse it, as only its first use allocates. Not safe for concurrent
// use.
type Scratch struct {
	charges []fastlimit.Charge
}

// Decide judges the request now and charges the rules that apply.
func (e *Engine) Decide(ctx context.Context, r *Request, s *Scratch) Verdict {
	return Verdict{Decision: fastlimit.Decision{Allowed: true, Stage: fastlimit.StageFilter, Remaining: fastlimit.Unknown}}
}

// DecideAt is Decide at a time that the caller brings; see
// [fastlimit.Rule.TakeAt].
func (e *Engine) DecideAt(ctx context.Context, r *Request, s *Scratch, now time.Duration) Verdict {
	return e.Decide(ctx, r, s)
}

// Applied is one rule that applied to a request, and the key it counted.
type Applied struct {
	RuleIndex int
	Rule      *fastlimit.Rule
	Key       fastlimit.Key // borrows from the request and the scratch
}

// Applied returns the rules that applied in the last call of Decide with s, in
// the order of the configuration. The slice is valid until the next call.
func (e *Engine) Applied(s *Scratch) []Applied { return nil }

// KeyText returns the key of the request under a rule for people to read, one
// element per part.
func (e *Engine) KeyText(ruleIndex int, r *Request) []string { return nil }

// KeyFromText returns the key of a client that is named by text, one element
// per part: the key that a live request of that client has.
func (e *Engine) KeyFromText(rule *fastlimit.Rule, parts []string) (fastlimit.Key, error) {
	return fastlimit.Key{}, nil
}
