package registry

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Memory is a [Store] within this process. The zero value is ready to use. The other stores
// are compared with it.
type Memory struct {
	mu      sync.Mutex
	mark    Mark
	records map[string]kept
}

type kept struct {
	Record
	until time.Time
}

// Mark implements [Store].
func (m *Memory) Mark(context.Context) (Mark, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mark, nil
}

// Read implements [Store].
func (m *Memory) Read(context.Context) (*Contents, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &Contents{Mark: m.mark}
	now := time.Now()
	for _, k := range m.records {
		if k.Left = k.until.Sub(now); k.Left > 0 {
			c.Records = append(c.Records, k.Record)
		}
	}
	slices.SortFunc(c.Records, func(a, b Record) int { return strings.Compare(a.Name, b.Name) })
	return c, nil
}

// Put implements [Store].
func (m *Memory) Put(_ context.Context, name, value string, life time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.records[name]; !known && len(m.records) >= MaxRecords && !m.pruneLocked() {
		return ErrFull
	}
	m.setLocked(Record{Name: name, Value: value, Version: m.nextLocked()}, life)
	return nil
}

// Delete implements [Store].
func (m *Memory) Delete(_ context.Context, name string) (existed bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, known := m.records[name]
	grave := Grave
	switch left := time.Until(k.until); {
	case !known && len(m.records) >= MaxRecords && !m.pruneLocked(), left > 0 && k.Value == "":
		return false, nil
	case left > 0:
		existed, grave = true, min(left, Grave)
	}
	m.setLocked(Record{Name: name, Version: m.nextLocked()}, grave)
	return existed, nil
}

// Restore implements [Store].
func (m *Memory) Restore(_ context.Context, records []Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range records {
		if k, known := m.records[r.Name]; known && k.Version >= r.Version || !known && len(m.records) >= MaxRecords {
			continue
		}
		m.nextLocked()
		m.setLocked(r, r.Left)
	}
	return nil
}

// Forget loses everything, for tests.
func (m *Memory) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records, m.mark = nil, Mark{}
}

// Snapshot returns a function that restores the current state of the registry, for tests:
// as if a replica without later changes were promoted.
func (m *Memory) Snapshot() (back func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	records, mark := maps.Clone(m.records), m.mark
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.records, m.mark = maps.Clone(records), mark
	}
}

// nextLocked returns the version of the next change.
func (m *Memory) nextLocked() uint64 {
	now := uint64(time.Now().UnixMicro()) // after 1970
	if m.mark.Epoch == 0 {
		m.mark.Epoch = now
	}
	m.mark.Version = max(m.mark.Version+1, now)
	return m.mark.Version
}

func (m *Memory) setLocked(r Record, life time.Duration) {
	if m.records == nil {
		m.records = map[string]kept{}
	}
	r.Left = 0
	m.records[r.Name] = kept{r, time.Now().Add(life)}
}

// pruneLocked makes room by removing ended and deleted records, and reports whether it
// could.
func (m *Memory) pruneLocked() bool {
	now := time.Now()
	maps.DeleteFunc(m.records, func(_ string, k kept) bool { return k.Value == "" || !k.until.After(now) })
	return len(m.records) < MaxRecords
}
