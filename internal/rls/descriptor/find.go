package descriptor

import (
	"bytes"
	"maps"
	"slices"
	"strings"
)

// Entry is an element of a request's descriptor.
type Entry struct{ Key, Value string }

// Match is the limit of a descriptor, and how it was found. Its zero value is ready, and one
// that was used is to be used again: then finding makes no garbage. Not safe for concurrent
// use.
type Match struct {
	Limit *Limit // nil if none applies

	steps []step
	text  []byte // of an entry, joined
}

// step is one step down the tree.
type step struct {
	node *node
	by   by
}

// by is what an entry was matched by.
type by uint8

const (
	byBoth by = iota // key and value
	byWildcard
	byKey
)

// Find looks up the limit of a request's descriptor.
func (l *Limits) Find(domain string, entries []Entry, m *Match) {
	m.Limit, m.steps = nil, m.steps[:0]
	at := l.domains[domain]
	for _, e := range entries {
		if at == nil {
			return
		}
		s := at.next(e, m)
		at = s.node
		m.steps = append(m.steps, s)
	}
	if at != nil {
		m.Limit = at.limit
	}
}

// Has reports whether a domain is configured.
func (l *Limits) Has(domain string) bool { return l.domains[domain] != nil }

// next returns the step that an entry takes from n; its node is nil if there is none.
func (n *node) next(e Entry, m *Match) step {
	m.text = append(append(append(m.text[:0], e.Key...), '_'), e.Value...)
	if child := n.children[string(m.text)]; child != nil {
		return step{child, byBoth}
	}
	for i := range n.wildcards {
		if w := &n.wildcards[i]; w.matches(m.text) {
			return step{w.node, byWildcard}
		}
	}
	return step{n.children[e.Key], byKey}
}

// matches reports whether text is the parts in order, with anything between them.
func (w *wildcard) matches(text []byte) bool {
	first, last := w.parts[0], w.parts[len(w.parts)-1]
	if len(text) < len(first)+len(last) || !bytes.HasPrefix(text, first) || !bytes.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, part := range w.parts[1 : len(w.parts)-1] {
		_, rest, found := bytes.Cut(text, part) // the first place leaves the most for the rest
		if !found {
			return false
		}
		text = rest
	}
	return true
}

// Shared returns the text that stands for the value of an entry in counters, if all values
// that its wildcard matches share one.
func (m *Match) Shared(i int, e Entry) (value string, ok bool) {
	if i >= len(m.steps) {
		return "", false
	}
	s := m.steps[i]
	if s.by != byWildcard || !s.node.shared {
		return "", false
	}
	return strings.TrimPrefix(s.node.step, e.Key+"_"), true
}

// ByRequest reports whether the metrics of the limit are named by values of the request, as
// detailed_metric and value_to_metric ask for. Else they are named by [Limit.Steps].
func (m *Match) ByRequest() bool {
	return m.Limit.Detailed || slices.ContainsFunc(m.steps, func(s step) bool { return s.node.byValue })
}

// Step returns what the step of an entry is called in metrics that are named by values of
// the request.
func (m *Match) Step(i int, e Entry) string {
	s := m.steps[i]
	value := ""
	shared, ok := m.Shared(i, e)
	switch {
	case ok:
		value = shared
	case m.Limit.Detailed && !m.anyShared():
		return e.Key + "_" + e.Value // without a value too
	case m.Limit.Detailed || s.by == byBoth || s.node.byValue:
		value = e.Value
	case s.by == byWildcard:
		return s.node.step
	}
	if value == "" {
		return e.Key
	}
	return e.Key + "_" + value
}

func (m *Match) anyShared() bool {
	return slices.ContainsFunc(m.steps, func(s step) bool { return s.by == byWildcard && s.node.shared })
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
