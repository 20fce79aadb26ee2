package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// setting is everything there is to know of one setting. The decoder, the JSON
// Schema and the test of the tables in the documents are driven by it. doc is a phrase
// without a full stop. def is read like a value of the file (see fillDefaults), while shown
// only says what a package does by itself, which TestDefaultsAreThoseOfThePackages compares.
type setting struct {
	name  string
	field string // of the section's struct that it fills; "" if value.read chooses
	value value

	doc      string // one sentence, as docs/configuration.md has it
	def      string // the default, as a file would write it
	shown    string // the default in words, where def is empty
	required string // of a setting without a default: what to write
}

// section is a mapping of the file, which fills one struct. The order of its settings is that
// of docs/configuration.md and of messages that list the valid ones.
type section struct {
	name     string   // in the schema
	want     string   // what the mapping should be, for messages
	where    string   // where its settings belong, for one that is found elsewhere
	oneOf    []string // settings of which there must be exactly one
	example  string   // of one of them, for messages
	like     string   // the section that a setting belongs in rather, if both have it
	settings []setting

	// check reports mistakes that involve several settings. It is called after all
	// are read, also if some have failed.
	check func(d *decoder, n *node)
}

// find is a linear search: sections are short, and a file is read once.
func (s *section) find(name string) (*setting, bool) {
	i := slices.IndexFunc(s.settings, func(f setting) bool { return f.name == name })
	if i < 0 {
		return nil, false
	}
	return &s.settings[i], true
}

// read fills to, a struct, with the settings of n, in the order of the file, and
// then with defaults. It reports settings that are unknown, duplicate, missing or not
// supported.
func (s *section) read(d *decoder, n *node, to reflect.Value) bool {
	if n.kind != isMapping {
		d.mismatch(n, s.want)
		return false
	}
	s.reportMissing(d, n)
	lines := make(map[string]int, len(n.members))
	for _, m := range n.members {
		// A setting that fails does not end the loop: all mistakes are reported.
		f := s.accept(d, n, m.key, lines)
		if f == nil {
			continue
		}
		m.value.path, m.value.field = m.key.path, join(n.field, f.field)
		// Two settings may fill one field, such as secret and secret_file. oneOf
		// has reported its own already.
		if first := d.places[m.value.field]; first != nil && !slices.Contains(s.oneOf, f.name) {
			_, name := cutLast(first.path)
			d.fail(m.value, name+" is set too", "remove one of the two")
			continue
		}
		d.places[m.value.field] = m.value
		f.value.read(d, m.value, f.target(to))
	}
	s.fillDefaults(d, n.field, to)
	if s.check != nil {
		s.check(d, n)
	}
	return true
}

// accept returns the setting that a key names. nil: it has reported why there is none.
// lines has where settings of the same mapping were seen.
func (s *section) accept(d *decoder, n, key *node, lines map[string]int) *setting {
	key.path = n.path
	if key.kind == isRefused {
		d.mismatch(key, "the name of a setting")
		return nil
	}
	f, known := s.find(key.text)
	key.path = n.child(key.text)
	switch first, twice := lines[key.text]; {
	case !known:
		key.path = n.child(printable(key.text))
		d.unknown(n, key, s)
		return nil
	case twice:
		d.fail(key, fmt.Sprintf("already set on line %d", first), "remove one of the two")
		return nil
	}
	lines[key.text] = key.line
	return f
}

// reportMissing reports required settings that are not written, at the mapping that
// lacks them. It gives a missing field a place that has failed, so that the package's
// check of the same field says nothing more.
func (s *section) reportMissing(d *decoder, n *node) {
	for _, f := range s.settings {
		if f.required == "" || slices.ContainsFunc(n.members, func(m member) bool {
			other, ok := s.find(m.key.text)
			return ok && other.field == f.field
		}) {
			continue
		}
		missing := &node{line: n.line, column: n.column, parent: n, path: n.child(f.name)}
		d.places[join(n.field, f.field)] = missing
		d.fail(missing, "missing", f.required)
	}
	if len(s.oneOf) == 0 {
		return
	}
	given := 0
	for _, m := range n.members {
		if slices.Contains(s.oneOf, m.key.text) {
			given++
		}
	}
	if given != 1 {
		last := len(s.oneOf) - 1
		d.fail(n, fmt.Sprintf("%d of %s and %s are set", given, strings.Join(s.oneOf[:last], ", "), s.oneOf[last]), "set one: "+s.example)
	}
}

// fillDefaults sets what the file does not, by reading the default as if it were
// written there: a default is held to the same bounds as a value of the user's.
func (s *section) fillDefaults(d *decoder, path string, to reflect.Value) {
	for _, f := range s.settings {
		field := join(path, f.field)
		switch {
		case d.places[field] != nil:
		case f.def != "":
			f.value.read(d, &node{kind: isText, text: f.def, path: f.name}, f.target(to))
		case f.value.section != nil && fieldOf(to, f.field).Kind() == reflect.Struct:
			f.value.section.fillDefaults(d, field, fieldOf(to, f.field))
		}
	}
}

// fieldOf returns a field of a struct by its path; the empty path is the struct. It
// panics if there is no such field: the tables are wrong then, which every test notices.
func fieldOf(v reflect.Value, path string) reflect.Value {
	if path == "" {
		return v
	}
	for name := range strings.SplitSeq(path, ".") {
		v = v.FieldByName(name)
	}
	return v
}

// whereItBelongs says where a setting belongs that was found at a path where it is unknown.
// It considers the sections that a wrong indentation leads away from. "" if the
// setting is in none of them, or in several.
func whereItBelongs(path, name string) string {
	var likely []string
	switch {
	case !strings.ContainsAny(path, ".["):
		likely = []string{"rule", "redis", "postgres", "upstream", "cluster", "connections", "drain", "wait", "admin"}
	case strings.Contains(path, ".match."):
		likely = []string{"rule", "top"}
	case strings.HasPrefix(path, "rules["):
		likely = []string{"match", "top"}
	default:
		likely = []string{"top"}
	}
	home, homes := "", 0
	for _, s := range sections {
		rather := func(other *section) bool { _, ok := other.find(name); return ok && other.name == s.like }
		if _, ok := s.find(name); !ok || slices.ContainsFunc(sections, rather) {
			continue
		}
		if homes++; slices.Contains(likely, s.name) {
			home = s.where
		}
	}
	if homes > 1 {
		return ""
	}
	return home
}

// sections are all there are, in the order of the documents. They are set in init: an
// initializer would form a cycle with those of the tables, since reading a setting looks
// up others (whereItBelongs).
var sections []*section

func init() {
	sections = []*section{
		&topSettings, &listenSettings, &tlsSettings, &denialSettings, &adminSettings, &tokenSettings, &upstreamSettings, &accessLogSettings, &connectionSettings, &drainSettings, &waitSettings, &listFileSettings, &redisSettings, &postgresSettings, &clusterSettings, &kernelSettings, &ruleSettings, &matchSettings, &notSettings, &legacySettings, &bucketSettings, &overrideSettings, &costFromSettings, &rateFromSettings, &banSettings, &prefixSettings,
	}
}

// cutLast cuts a path at its last dot.
func cutLast(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '.')
	return path[:max(i, 0)], path[i+1:]
}
