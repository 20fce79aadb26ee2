package decide

import (
	"context"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/policy"
)

// Owed is the charge of an admitted request whose answer reports its cost. It is used once: its last call is
// Settle or Drop. Not safe for concurrent use.
type Owed struct {
	charges policy.Owed
	from    *sync.Pool
	fields  []byte   // of the answer
	values  [][]byte // of the last lookup
}

// Settle charges the cost in the head of an answer, given its field lines. It may wait for a shared store as
// long as a decision.
func (o *Owed) Settle(fields []byte) {
	o.fields = fields
	o.charges.Settle(context.Background(), o)
	o.Drop()
}

// Drop forgets what is owed: there was no answer.
func (o *Owed) Drop() {
	o.charges.Reset()
	clear(o.values)
	o.fields = nil
	o.from.Put(o)
}

// Header implements [policy.Headers].
func (o *Owed) Header(name string) [][]byte {
	o.values = appendHeaders(o.values[:0], o.fields, name)
	return o.values
}

// owe sets how an admission will be reconciled.
func (s *Service) owe(a *Admission, r *requestState) {
	a.Hidden = r.snap.engine.CostHeaders()
	now := r.snap.settings.Limiter.Now()
	o := s.oweds.Get().(*Owed)
	r.snap.engine.Owe(&o.charges, &r.scratch, now-time.Since(r.read))
	if o.charges.None() {
		o.Drop()
		return
	}
	a.Owed = o
}
