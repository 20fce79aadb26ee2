// Package registrytest asks of every registry.Store the same.
package registrytest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket/registry"
)

// Run tests an empty store, of which open returns handles of several nodes; forget makes
// it lose everything.
func Run(t *testing.T, open func() registry.Store, forget func()) {
	t.Helper()
	s := &suite{t, t.Context(), open(), forget}
	for _, step := range []func(){s.empty, s.changes, s.order, s.odd, s.ends, s.loss, s.full} {
		step()
		if t.Failed() {
			return
		}
	}
	s.concurrent([]registry.Store{open(), open(), open()})
}

type suite struct {
	*testing.T
	ctx    context.Context
	store  registry.Store
	forget func()
}

// read returns the values by name; "-" is one that was deleted.
func (s *suite) read() (values map[string]string, c *registry.Contents) {
	s.Helper()
	c, err := s.store.Read(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	values = map[string]string{}
	for _, r := range c.Records {
		if _, twice := values[r.Name]; twice {
			s.Errorf("%q is read twice", r.Name)
		}
		values[r.Name] = r.Value
		if r.Value == "" {
			values[r.Name] = "-"
		}
		if r.Left <= 0 || r.Version == 0 || r.Version > c.Mark.Version && c.Mark == s.mark() {
			s.Errorf("%+v at %+v", r, c.Mark)
		}
	}
	return values, c
}

func (s *suite) mark() registry.Mark {
	s.Helper()
	m, err := s.store.Mark(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	return m
}

func (s *suite) put(name, value string, life time.Duration) {
	s.Helper()
	if err := s.store.Put(s.ctx, name, value, life); err != nil {
		s.Fatal(err)
	}
}

func (s *suite) remove(name string, want bool) {
	s.Helper()
	if ok, err := s.store.Delete(s.ctx, name); ok != want || err != nil {
		s.Errorf("delete %q: %t, %v", name, ok, err)
	}
}

func (s *suite) wants(what string, want map[string]string) {
	s.Helper()
	if got, _ := s.read(); fmt.Sprint(got) != fmt.Sprint(want) {
		s.Errorf("%s: %v, want %v", what, got, want)
	}
}

func (s *suite) empty() {
	s.wants("empty", map[string]string{})
	if m := s.mark(); m != (registry.Mark{}) {
		s.Errorf("an empty store has %+v", m)
	}
	s.remove("a", false)
}

func (s *suite) changes() {
	s.put("a", "1", time.Hour)
	s.put("b", "2", 400*24*time.Hour)
	before := s.mark()
	s.wants("two", map[string]string{"a": "1", "b": "2"})
	if s.mark() != before {
		s.Error("reading changes the mark")
	}
	s.put("a", "3", 2*time.Hour)
	s.remove("b", true)
	s.remove("b", false)
	s.remove("c", false)
	s.wants("changed", map[string]string{"a": "3", "b": "-", "c": "-"})
	_, c := s.read()
	if !c.Mark.Lost(before) || before.Lost(c.Mark) || c.Mark.Version <= before.Version {
		s.Errorf("from %+v to %+v", before, c.Mark)
	}
	for _, r := range c.Records {
		if most := map[string]time.Duration{"a": 2 * time.Hour, "b": registry.Grave, "c": registry.Grave}[r.Name]; r.Left > most || r.Left < most-time.Minute {
			s.Errorf("%s has %v left, want %v", r.Name, r.Left, most)
		}
	}
	s.put("b", "4", time.Hour)
	s.wants("set again", map[string]string{"a": "3", "b": "4", "c": "-"})
}

// order: each change has a version above those before.
func (s *suite) order() {
	last := s.mark().Version
	for i := range 50 {
		s.put("a", fmt.Sprint(i), time.Hour)
		_, c := s.read()
		for _, r := range c.Records {
			if r.Name == "a" && (r.Version <= last || r.Value != fmt.Sprint(i)) {
				s.Fatalf("change %d: %+v after %d", i, r, last)
			}
		}
		last = c.Mark.Version
	}
}

// odd names and values come back as they were.
func (s *suite) odd() {
	s.forget()
	want := map[string]string{}
	for _, name := range []string{"!epoch", "!version", "=", " ", "a:b", "a\x00b", "\xff\xfe", "{x}", "é", "'; DROP TABLE x", strings.Repeat("n", registry.MaxName), "12 34 "} {
		value := "5 6 " + name + "\n\x01" + strings.Repeat("v", 100)
		want[name] = value
		s.put(name, value, time.Hour)
	}
	s.wants("odd", want)
	large := strings.Repeat("v", registry.MaxValue)
	s.put("large", large, time.Hour)
	want["large"] = large
	s.wants("large", want)
}

// ends: what has ended is gone without a change.
func (s *suite) ends() {
	s.forget()
	s.put("long", "1", time.Hour)
	s.put("short", "2", 50*time.Millisecond)
	m := s.mark()
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if got, _ := s.read(); len(got) == 1 && got["long"] == "1" {
			break
		} else if time.Since(start) > time.Minute {
			s.Fatalf("%v", got)
		}
	}
	if s.mark() != m {
		s.Error("an end is a change")
	}
	s.remove("short", false)
}

// loss: a store that has forgotten is told again by nodes that knew, of which some knew
// less, in any order; the highest version of each name stays.
func (s *suite) loss() {
	s.forget()
	s.put("kept", "1", time.Hour)
	s.put("changed", "1", time.Hour)
	s.put("deleted", "1", time.Hour)
	s.put("gone", "1", time.Hour)
	_, early := s.read()
	s.put("changed", "2", time.Hour)
	s.remove("deleted", true)
	_, late := s.read()
	for range 6 {
		s.forget()
		if m := s.mark(); !late.Mark.Lost(m) {
			s.Fatalf("%+v after %+v is not lost", m, late.Mark)
		}
		s.put("new", "1", time.Hour)
		s.remove("gone", false) // which nodes know
		if m := s.mark(); !late.Mark.Lost(m) || m.Version <= late.Mark.Version {
			s.Errorf("%+v after %+v", m, late.Mark)
		}
		nodes := []*registry.Contents{early, late, early, late}
		rand.Shuffle(len(nodes), func(i, k int) { nodes[i], nodes[k] = nodes[k], nodes[i] })
		for _, c := range nodes {
			if err := s.store.Restore(s.ctx, c.Records); err != nil {
				s.Fatal(err)
			}
		}
		s.wants("restored", map[string]string{"kept": "1", "changed": "2", "deleted": "-", "new": "1", "gone": "-"})
		before := s.mark()
		if err := s.store.Restore(s.ctx, late.Records); err != nil || s.mark() != before {
			s.Errorf("restored once more: %+v, %+v, %v", before, s.mark(), err)
		}
	}
}

// full: no more than MaxRecords, until one is deleted.
func (s *suite) full() {
	s.forget()
	var all []registry.Record
	for i := range registry.MaxRecords {
		all = append(all, registry.Record{Name: fmt.Sprint("n", i), Value: "v", Version: uint64(i + 1), Left: time.Hour})
	}
	if err := s.store.Restore(s.ctx, all); err != nil {
		s.Fatal(err)
	}
	if got, _ := s.read(); len(got) != registry.MaxRecords {
		s.Fatalf("%d records", len(got))
	}
	if err := s.store.Put(s.ctx, "more", "v", time.Hour); !errors.Is(err, registry.ErrFull) {
		s.Errorf("one more: %v", err)
	}
	s.remove("none", false)
	if got, _ := s.read(); len(got) != registry.MaxRecords {
		s.Errorf("%d records after one that there is not was deleted", len(got))
	}
	s.put("n7", "w", time.Hour)
	s.remove("n8", true)
	for start := time.Now(); ; time.Sleep(50 * time.Millisecond) { // room is looked for once a second
		err := s.store.Put(s.ctx, "more", "v", time.Hour)
		if err == nil {
			break
		}
		if !errors.Is(err, registry.ErrFull) || time.Since(start) > time.Minute {
			s.Fatal(err)
		}
	}
	if got, _ := s.read(); len(got) != registry.MaxRecords || got["more"] != "v" || got["n7"] != "w" {
		s.Errorf("%d records", len(got))
	}
	s.forget()
}

// concurrent: nodes that change different names at once lose none of each other's
// changes, and of one name that all change they agree on the value.
func (s *suite) concurrent(nodes []registry.Store) {
	const each = 40
	var wg sync.WaitGroup
	for n, node := range nodes {
		wg.Go(func() {
			for i := range each {
				name := fmt.Sprintf("%d.%d", n, i)
				if err := node.Put(s.ctx, name, name, time.Hour); err != nil {
					s.Error(err)
				}
				if err := node.Put(s.ctx, "one", name, time.Hour); err != nil {
					s.Error(err)
				}
				if i%4 == 0 {
					if ok, err := node.Delete(s.ctx, name); !ok || err != nil {
						s.Error(ok, err)
					}
				}
			}
		})
	}
	wg.Wait()
	got, c := s.read()
	if len(got) != len(nodes)*each+1 {
		s.Errorf("%d records", len(got))
	}
	versions := map[uint64]bool{}
	for _, r := range c.Records {
		if versions[r.Version] {
			s.Errorf("version %d twice", r.Version)
		}
		versions[r.Version] = true
		if r.Name == "one" {
			continue
		}
		var n, i int
		if _, err := fmt.Sscanf(r.Name, "%d.%d", &n, &i); err != nil || (r.Value == "") != (i%4 == 0) {
			s.Errorf("%+v", r)
		}
	}
	for _, node := range nodes {
		o, err := node.Read(s.ctx)
		if err != nil || fmt.Sprint(len(o.Records), o.Mark) != fmt.Sprint(len(c.Records), c.Mark) {
			s.Errorf("%v, %v", o.Mark, err)
		}
	}
}
