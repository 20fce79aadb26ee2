package decide

import (
	"context"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/policy"
)

// Owed is what an admitted request is charged when its answer says what it has cost. It is
// used once: its last call is Settle or Drop. Not safe for concurrent use.
type Owed struct {
	policy.Owed

	from   *sync.Pool
	fields []byte   // of the answer
	values [][]byte // of the last lookup
}

// Settle charges what the head of an answer says, given its field lines. It may wait for a
// shared store, for as long as a decision may.
func (o *Owed) Settle(fields []byte) {
	o.fields = fields
	o.Owed.Settle(context.Background(), o)
	o.Drop()
}

// Drop forgets what is owed: there was no answer.
func (o *Owed) Drop() {
	o.Reset()
	clear(o.values)
	o.fields = nil
	o.from.Put(o)
}

// Header implements [policy.Headers].
func (o *Owed) Header(name string) [][]byte {
	o.values = appendHeaders(o.values[:0], o.fields, name)
	return o.values
}

// owe sets what an admission has to be settled by.
func (s *Service) owe(a *Admission, r *requestState) {
	a.Hidden = r.snap.engine.CostHeaders()
	now := r.snap.settings.Limiter.Now()
	o := s.oweds.Get().(*Owed)
	r.snap.engine.Owe(&o.Owed, &r.scratch, now-time.Since(r.read))
	if o.None() {
		o.Drop()
		return
	}
	a.Owed = o
}
