package descriptor

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// tree is a file with what lookups distinguish.
const tree = `
domain: shop
descriptors:
  - key: path
    descriptors:
      - key: user
        rate_limit: {unit: minute, requests_per_unit: 1}
  - key: path
    value: /login
    rate_limit: {unit: minute, requests_per_unit: 2}
  - key: path
    value: /files/*.zip
    share_threshold: true
    rate_limit: {unit: hour, requests_per_unit: 3}
  - key: path
    value: /files/*
    rate_limit: {unit: day, requests_per_unit: 4}
    descriptors:
      - key: user
        value: eve
        rate_limit: {unit: week, requests_per_unit: 5}
  - key: plan
    rate_limit: {unlimited: true}
  - key: plan
    value: trial
`

func parseTree(t *testing.T, text string, merge bool) *Limits {
	t.Helper()
	c, warnings, errs := ParseYAML("f.yaml", []byte(text))
	if len(warnings)+len(errs) > 0 {
		t.Fatalf("%v %v", warnings, errs)
	}
	limits, errs := New([]Config{*c}, merge)
	if errs != nil {
		t.Fatal(errs)
	}
	return limits
}

func TestFind(t *testing.T) {
	t.Parallel()
	limits := parseTree(t, tree, false)
	var m Match
	for _, c := range []struct {
		domain, entries string
		want            uint32 // requests of the limit; 0: none
	}{
		{"shop", "path=/x user=a", 1},
		{"shop", "path=/x user=", 1},
		{"shop", "path=/x", 0},               // the limit is deeper
		{"shop", "path=/x user=a more=b", 0}, // and not so deep
		{"shop", "path=/login", 2},
		{"shop", "path=/login user=a", 0}, // no way back to the path of any value
		{"shop", "path=/files/a.zip", 3},  // the first wildcard of the file
		{"shop", "path=/files/.zip", 3},
		{"shop", "path=/files/zip", 4},
		{"shop", "path=/files/", 4},
		{"shop", "path=/files", 0},
		{"shop", "path=/files/a user=eve", 5},
		{"shop", "path=/files/a user=bob", 0},
		{"shop", "path=/files/a.zip user=eve", 0},
		{"shop", "path=/files/* user=eve", 5}, // the wildcard itself
		{"shop", "plan=trial", 0},
		{"shop", "path_/login=", 2}, // the same, joined
		{"shop", "pa=th_/login", 0},
		{"shop", "", 0},
		{"other", "path=/login", 0},
	} {
		limits.Find(c.domain, entries(c.entries), &m)
		if (m.Limit == nil) != (c.want == 0) || m.Limit != nil && m.Limit.Requests != c.want {
			t.Errorf("%s %q: %+v, want %d", c.domain, c.entries, m.Limit, c.want)
		}
	}
	if limits.Find("shop", entries("plan=gold"), &m); m.Limit == nil || !m.Limit.Unlimited {
		t.Errorf("plan: %+v, want unlimited", m.Limit)
	}
}

func TestShared(t *testing.T) {
	t.Parallel()
	limits := parseTree(t, tree, false)
	var m Match
	for text, want := range map[string]string{"path=/files/a.zip": "/files/*.zip", "path=/files/a": "", "path=/files/*.zip": "", "path=/login": "", "other=x": ""} {
		e := entries(text)
		limits.Find("shop", e, &m)
		if got, ok := m.Shared(0, e[0]); got != want || ok != (want != "") {
			t.Errorf("%s: %q %v, want %q", text, got, ok, want)
		}
		if _, ok := m.Shared(1, e[0]); ok {
			t.Errorf("%s: an entry that is not there has a shared value", text)
		}
	}
}

// TestFindAllocates nothing once its Match was used.
func TestFindAllocates(t *testing.T) {
	limits := parseTree(t, tree, false)
	e := entries("path=/files/a user=eve")
	var m Match
	if n := testing.AllocsPerRun(100, func() { limits.Find("shop", e, &m) }); n > 0 || m.Limit == nil {
		t.Errorf("%v allocations", n)
	}
}

// TestFindByOracle compares random trees and requests with the rule as it is written in
// the package comment.
func TestFindByOracle(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 300 {
		c := Config{Name: "f", Domain: "d", Descriptors: randomTree(r, 3)}
		limits, errs := New([]Config{c}, false)
		if errs != nil {
			t.Fatal(errs)
		}
		var m Match
		for range 300 {
			e := make([]Entry, r.IntN(4))
			for i := range e {
				e[i] = Entry{pick(r, "a", "b", "a_x", "*"), pick(r, "", "x", "xx", "y", "xyx", "x_*", "*")}
			}
			limits.Find("d", e, &m)
			want := obvious(c.Descriptors, e)
			if (want == nil) != (m.Limit == nil) || want != nil && m.Limit.Requests != want.Requests {
				t.Fatalf("%+v in %+v: %+v, want %+v", e, c.Descriptors, m.Limit, want)
			}
			if want != nil {
				found++
			}
		}
	}
	if found < 5000 {
		t.Errorf("only %d requests had a limit", found)
	}
}

// randomTree has descriptors whose steps differ, each with a limit of its own.
func randomTree(r *rand.Rand, depth int) (all []Descriptor) {
	if depth == 0 {
		return nil
	}
	seen := map[string]bool{}
	for range r.IntN(7) {
		d := Descriptor{Key: pick(r, "a", "b", "a_x", "a*"), Value: pick(r, "", "x", "y", "x*", "*x", "x*x", "*")}
		if seen[d.step()] {
			continue
		}
		seen[d.step()] = true
		if r.IntN(2) == 0 {
			d.Limit = &Policy{Requests: 1 + r.Uint32N(1<<30), Unit: Second}
		}
		d.Descriptors = randomTree(r, depth-1)
		all = append(all, d)
	}
	return all
}

// obvious is Find by its definition.
func obvious(all []Descriptor, entries []Entry) *Policy {
	if len(entries) == 0 {
		return nil
	}
	e := entries[0]
	at := slices.IndexFunc(all, func(d Descriptor) bool { return d.step() == e.Key+"_"+e.Value })
	if at < 0 {
		at = slices.IndexFunc(all, func(d Descriptor) bool { return wild(d.step()) && glob(d.step(), e.Key+"_"+e.Value) })
	}
	if at < 0 {
		at = slices.IndexFunc(all, func(d Descriptor) bool { return d.step() == e.Key })
	}
	switch {
	case at < 0:
		return nil
	case len(entries) == 1:
		return all[at].Limit
	}
	return obvious(all[at].Descriptors, entries[1:])
}

// glob tries all texts that each star may stand for.
func glob(pattern, text string) bool {
	switch {
	case pattern == "":
		return text == ""
	case pattern[0] != '*':
		return text != "" && text[0] == pattern[0] && glob(pattern[1:], text[1:])
	}
	for i := range len(text) + 1 {
		if glob(pattern[1:], text[i:]) {
			return true
		}
	}
	return false
}

func pick(r *rand.Rand, of ...string) string { return of[r.IntN(len(of))] }

// entries are written key=value, apart by blanks.
func entries(text string) (all []Entry) {
	for field := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(field, "=")
		all = append(all, Entry{key, value})
	}
	return all
}

func BenchmarkFind(b *testing.B) {
	c := Config{Name: "f", Domain: "d"}
	for i := range 20_000 {
		c.Descriptors = append(c.Descriptors, Descriptor{Key: "path", Value: fmt.Sprint("/p", i), Descriptors: []Descriptor{
			{Key: "user", Limit: &Policy{Requests: 5, Unit: Second}},
		}})
	}
	limits, errs := New([]Config{c}, false)
	if errs != nil {
		b.Fatal(errs)
	}
	e := []Entry{{"path", "/p777"}, {"user", "alice"}}
	var m Match
	for b.Loop() {
		limits.Find("d", e, &m)
	}
	if m.Limit == nil {
		b.Fatal("no limit")
	}
}
