package remote

import (
	"sync/atomic"
	"time"
)

// alarmEvery bounds how often one class of misconfiguration is logged.
const alarmEvery = time.Minute

// failures is the state of one class.
type failures struct {
	errors  atomic.Uint64
	alarmed atomic.Int64 // UnixNano of the last line
}

// fail classifies and counts an error of the driver, and logs it if waiting will
// not help.
func (s *Store) fail(err error) *Error {
	e := s.driver.Classify(err)
	s.classes[e.Class].errors.Add(1)
	if e.Class.Cause == Misconfigured {
		s.alarm(e)
	}
	return e
}

// alarm logs the change that is needed, at most once a minute per class, since every
// operation fails in the same way.
func (s *Store) alarm(e *Error) {
	now, at := time.Now().UnixNano(), &s.classes[e.Class].alarmed
	last := at.Load()
	if last != 0 && now-last < int64(alarmEvery) || !at.CompareAndSwap(last, now) {
		return
	}
	c := &s.config
	attrs := []any{c.Name, c.Target, "class", e.Class.Name, "error", e.text(), "fix", e.Fix}
	if e.Key != "" {
		attrs = append(attrs, "key", e.Key[:min(len(e.Key), 128)])
	}
	c.Logger.Error(c.Name+" refuses its work: the configuration is wrong", attrs...)
}
