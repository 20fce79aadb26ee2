package remote

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/step"
)

var (
	errGone    = errors.New("gone")
	errRights  = errors.New("not allowed")
	classGone  = &Class{Name: "gone", Cause: Away, Fix: "start it"}
	classSlow  = &Class{Name: "timeout", Cause: Away}
	classLate  = &Class{Name: "late", Cause: Late}
	classRight = &Class{Name: "rights", Cause: Misconfigured, Fix: "grant them"}
	classOther = &Class{Name: "other"}
	allClasses = []*Class{classGone, classSlow, classLate, classRight, classOther}
)

// memory is a driver of a store in memory with a clock of its own: all that it
// takes to be one, and hooks for tests.
type memory struct {
	clock func() uint64    // the store's, in µs
	local func() time.Time // this machine's

	mu     sync.Mutex
	states map[string]step.State // guarded by mu
	micros uint64                // what the store's clock said at; guarded by mu
	at     time.Time             // guarded by mu

	exec   func(ops []*bucket.Op) error // before each batch; an error fails it
	probe  func() error                 // guarded by mu
	trip   time.Duration                // guarded by mu
	closed bool
}

func newMemory() *memory {
	return &memory{
		clock:  func() uint64 { return uint64(time.Now().UnixMicro()) },
		local:  time.Now,
		states: make(map[string]step.State),
		exec:   func([]*bucket.Op) error { return nil },
		probe:  func() error { return nil },
		trip:   time.Millisecond,
	}
}

func (*memory) Runs(a bucket.Algorithm) bool { return step.Runs(a) }

func (m *memory) Exec(_ context.Context, ops []*bucket.Op, settle Settle) {
	if err := m.exec(ops); err != nil {
		for _, op := range ops {
			settle(op, bucket.Reply{}, err)
		}
		return
	}
	results, errs := make([]bucket.Reply, len(ops)), make([]error, len(ops))
	m.mu.Lock()
	now, local := m.clock(), m.local()
	if m.at.IsZero() {
		m.micros, m.at = now, local
	}
	for i, op := range ops {
		if !m.Runs(op.Algorithm) {
			errs[i] = bucket.ErrAlgorithm
			continue
		}
		request := step.NewRequest(op, 0)
		if Dated(op) {
			request = step.NewRequest(op, m.timeLocked(op.At))
			request.Sent = m.timeLocked(local)
		}
		state, r := step.Apply(m.states[op.Key], now, request)
		if r.Late {
			errs[i] = bucket.ErrLate
			continue
		}
		if r.Write {
			m.states[op.Key] = state
		}
		results[i] = bucket.Reply{Granted: r.Granted, Level: r.Level, Now: now}
	}
	m.micros, m.at = now, local
	m.mu.Unlock()
	for i, op := range ops {
		settle(op, results[i], errs[i])
	}
}

// timeLocked is the store's time at t, as far as is known without asking.
func (m *memory) timeLocked(t time.Time) uint64 {
	return uint64(int64(m.micros) + t.Sub(m.at).Microseconds())
}

// probeWith changes what becomes of probes.
func (m *memory) probeWith(probe func() error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.probe = probe
}

func (m *memory) Probe(context.Context) error {
	m.mu.Lock()
	probe := m.probe
	m.mu.Unlock()
	return probe()
}

func (m *memory) Measure(_ context.Context, trips []time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range trips {
		trips[i] = m.trip
	}
	return nil
}

func (m *memory) Classify(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	class := classOther
	for target, c := range map[error]*Class{
		errGone: classGone, context.DeadlineExceeded: classSlow, bucket.ErrLate: classLate, errRights: classRight,
	} {
		if errors.Is(err, target) {
			class = c
		}
	}
	return &Error{Package: "fastlimit/memory", Class: class, Err: err, Fix: class.Fix}
}

func (m *memory) Close() error {
	m.closed = true
	return nil
}
