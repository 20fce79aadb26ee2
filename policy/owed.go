package policy

import (
	"context"
	"net/textproto"
	"slices"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
)

// Owed is what an admitted request may still be charged, or get back, once its answer says
// what it has cost; see [CostSource].ResponseHeader. The zero value is ready. Reuse it, but
// reset it: it keeps rules alive. Not safe for concurrent use.
type Owed struct {
	charges []owedCharge
	since   time.Duration
}

type owedCharge struct {
	fastlimit.Charge

	header string
}

// Headers are the fields of an answer, by the canonical names of [net/http].
type Headers interface {
	// Header returns the values of all fields of the name.
	Header(name string) [][]byte
}

// CostHeaders are the headers of answers that rules have costs from, in canonical form, each
// once. Clients should not see them. Do not change the slice.
func (e *Engine) CostHeaders() []string { return e.costHeaders }

// Owes reports whether some rule has costs from answers, so that [Engine.Owe] has something
// to do.
func (e *Engine) Owes() bool { return e.owes }

// Owe sets o to what the request owes that was decided last with s, and was admitted. since
// is the limiter's time before it was. o borrows nothing of the request.
func (e *Engine) Owe(o *Owed, s *Scratch, since time.Duration) {
	o.charges, o.since = o.charges[:0], since
	for _, c := range s.charges {
		header := e.rules[(*engine.Rule)(c.Rule).Index()].costOf
		if header == "" || c.Cost == 0 { // which a shadow rule would have denied
			continue
		}
		c.Key = c.Key.Clone()
		o.charges = append(o.charges, owedCharge{c, header})
	}
}

// Settle charges each rule what the answer says, by [fastlimit.Rule.Settle]. Where it has no
// such header the charge stays as it is, and so it does with a bad cost, which is counted:
// text that is no cost, or several.
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

// addCostHeader notes the header of a rule, if answers say what its requests cost.
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

// setApart takes the charges of shadow rules that answers settle out of s.charges. Whether
// such a rule would have admitted a request has to be known, as a request that was denied
// has no answer; of several charges [fastlimit.Limiter.TakeAll] tells only what was decided.
func (e *Engine) setApart(s *Scratch) {
	s.clearApart() // a request that was refused has left its there
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

// takeApart charges them, if the request was admitted, and puts them back behind the others.
// One that would have been denied has no cost there.
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
