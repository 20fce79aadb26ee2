package policy

import (
	"context"
	"net/textproto"
	"slices"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
)

// Owed is what an admitted request may still be charged, or get back, once its response
// says what it has cost; see [CostSource].ResponseHeader. The zero value is ready to use.
// It may be reused, but reset it: it keeps rules alive. Not safe for concurrent use.
type Owed struct {
	charges []owedCharge
	since   time.Duration
}

type owedCharge struct {
	fastlimit.Charge

	header string
}

// Headers are the fields of a response, by the canonical names of [net/http].
type Headers interface {
	// Header returns the values of all fields with that name.
	Header(name string) [][]byte
}

// CostHeaders returns the response headers that rules take costs from, in canonical form,
// each once. Clients should not see them. Do not change the slice.
func (e *Engine) CostHeaders() []string { return e.costHeaders }

// Owes reports whether some rule takes costs from responses, so that [Engine.Owe] has
// something to do.
func (e *Engine) Owes() bool { return e.owes }

// Owe sets o to what the last request that was decided with s, and admitted, owes. since is
// the limiter's time before the decision. o borrows nothing from the request.
func (e *Engine) Owe(o *Owed, s *Scratch, since time.Duration) {
	o.charges, o.since = o.charges[:0], since
	for _, c := range s.charges {
		header := e.rules[(*engine.Rule)(c.Rule).Index()].costOf
		if header == "" || c.Cost == 0 { // set for a shadow rule that would have denied the request
			continue
		}
		c.Key = c.Key.Clone()
		o.charges = append(o.charges, owedCharge{c, header})
	}
}

// Settle charges each rule what the response says, by [fastlimit.Rule.Settle]. If the
// response has no such header the charge stays as it is. So it does with a bad cost, which
// is counted: text that is not a cost, or several costs.
func (o *Owed) Settle(ctx context.Context, answer Headers) {
	for i := range o.charges {
		c := &o.charges[i]
		values := answer.Header(c.header)
		if len(values) == 0 {
			continue
		}
		n, ok := parseCost(values[0], (*engine.Rule)(c.Rule).CostScale())
		if !ok || len(values) > 1 {
			(*engine.Rule)(c.Rule).BadCost()
			continue
		}
		c.Rule.Settle(ctx, c.Key, c.Cost, n, o.since)
	}
	o.Reset()
}

// None reports whether nothing is owed.
func (o *Owed) None() bool { return len(o.charges) == 0 }

// Reset forgets what is owed.
func (o *Owed) Reset() {
	clear(o.charges)
	o.charges = o.charges[:0]
}

// addCostHeader records the header of a rule, if responses say what its requests cost.
func (e *Engine) addCostHeader(name string) (canonical string) {
	if name == "" {
		return ""
	}
	e.owes = true
	canonical = textproto.CanonicalMIMEHeaderKey(name)
	if !slices.Contains(e.costHeaders, canonical) {
		e.costHeaders = append(e.costHeaders, canonical)
	}
	return canonical
}

// setApart moves the charges of shadow rules with costs from responses from s.charges to
// s.apart. It must be known whether such a rule would have admitted a request, as a denied
// request has no response, and for several charges [fastlimit.Limiter.TakeAll] reports only
// the overall decision.
func (e *Engine) setApart(s *Scratch) {
	s.clearApart() // a request that was refused has left its charges there
	kept := s.charges[:0]
	for _, c := range s.charges {
		if e.rules[(*engine.Rule)(c.Rule).Index()].costOf != "" && c.Rule.Config().Mode == fastlimit.Shadow {
			s.apart = append(s.apart, c)
		} else {
			kept = append(kept, c)
		}
	}
	clear(s.charges[len(kept):])
	s.charges = kept
}

// takeApart charges them, if the request was admitted, and puts them back behind the
// others. The cost of one that would have been denied becomes 0.
func (e *Engine) takeApart(ctx context.Context, s *Scratch, v *Verdict) {
	if v.Decision.Allowed && v.List == ListNone {
		for i := range s.apart {
			if c := &s.apart[i]; !c.Rule.Take(ctx, c.Key, c.Cost).Allowed {
				c.Cost = 0
			}
		}
		s.charges = append(s.charges, s.apart...)
	}
	s.clearApart()
}

func (s *Scratch) clearApart() {
	clear(s.apart)
	s.apart = s.apart[:0]
}
