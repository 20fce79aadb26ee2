package config

import (
	"cmp"
	"strings"

	"github.com/fastlimit/fastlimit/internal/field"
	"github.com/fastlimit/fastlimit/internal/mistake"
	"github.com/fastlimit/fastlimit/internal/safetext"
)

// decoder turns nodes into a Config and collects the errors. Not safe for
// concurrent use.
type decoder struct {
	file      string
	lookupEnv func(string) (string, bool)
	machine   machine
	cfg       *Config
	// places has where the file sets a Go field, by the path of the field. It turns
	// a package's error about a field into one about a line. A field that is absent
	// is not written in the file, whatever its value.
	places map[string]*node
	errs   mistake.Errors

	// definitions and factors of rules, by the path of their field; see
	// translateLegacy.
	definitions map[string]*definition
	// overrideLines has the lines of a rule's file of overrides, by the path of the field.
	overrideLines map[string][]int
	factors       map[string]float64
}

// add drops errors beyond maxErrors: by then the file is probably none of ours.
func (d *decoder) add(e *mistake.Error) {
	if len(d.errs) < maxErrors {
		e.File = cmp.Or(e.File, d.file)
		d.errs = append(d.errs, e)
	}
}

// fail reports a mistake at n. All nodes around it count as failed too, so that a
// check of the whole does not report what follows from the mistake.
func (d *decoder) fail(n *node, problem, fix string) {
	d.failIn(d.file, n.line, n.column, n, problem, fix)
}

// failIn reports a mistake at a place in a file that a setting names.
func (d *decoder) failIn(file string, line, column int, n *node, problem, fix string) {
	for up := n; up != nil; up = up.parent {
		up.failed = true
	}
	d.add(&mistake.Error{File: file, Line: line, Column: column, Setting: n.path, Problem: safetext.Clip(problem, maxProblem), Fix: safetext.Clip(fix, maxProblem)})
}

// maxProblem bounds a message in bytes: packages quote values in full.
const maxProblem = 600

// mismatch reports a value of the wrong kind. A value that is missing is usually a block
// that is not indented, so for mappings the fix says that too.
func (d *decoder) mismatch(n *node, want string) {
	switch n.kind {
	case isNull:
		fix := "want " + want
		if strings.HasPrefix(want, "a mapping") || strings.HasPrefix(want, "settings") {
			fix += ", or indent its settings more than it"
		}
		d.fail(n, "has no value", fix)
	case isRefused:
		d.fail(n, n.problem, n.fix)
	default:
		d.fail(n, "found "+n.what(), "want "+want)
	}
}

// renamed maps the old names of settings to those of today, so that a file of an
// earlier version is told what to write.
var renamed = map[string]string{"heavy_hitters": "top_talkers"}

// unknown reports a setting that the section does not have, with the likely cause: an
// old name, a wrong indentation, or a misspelling.
func (d *decoder) unknown(n, key *node, s *section) {
	if now, ok := s.find(renamed[key.text]); ok {
		d.fail(key, "is now called "+now.name, "write "+now.name)
		return
	}
	problem := "unknown setting"
	if home := whereItBelongs(key.path, key.text); home != "" { // the usual cause is a wrong indentation
		for _, other := range []*section{&postgresSettings, &upstreamSettings} { // see whereItBelongs
			if _, ok := other.find(key.text); ok && home == redisSettings.where && n.has(other.name) && !n.has("redis") {
				home = other.where
			}
		}
		problem += " here; it belongs " + home
	}
	d.fail(key, problem, suggest(key.text, s))
}

// report puts the field errors of a package at the places in the file where the
// fields are set. It leaves out fields with a mistake that is reported already. path
// is that of the struct that the package has checked.
func (d *decoder) report(path string, err error) {
	for _, e := range field.All(err) {
		if n := d.place(join(path, e.Field)); !n.failed && !d.hidden(path, e.Field) {
			d.fail(n, e.Problem, e.Fix)
		}
	}
}

// derivedFrom names the field that the default of another derives from: where burst
// is not written, rate is to blame for its value.
var derivedFrom = map[string]string{"Burst": "Rate"}

// dependsOn names the field without which another has no meaning. While that one is
// wrong, errors about the other would only follow from it.
var dependsOn = map[string]string{"Cost": "Burst", "CountDenied": "Algorithm", "MasterName": "Addrs"}

// hidden reports whether an error about a field would only follow from another one.
func (d *decoder) hidden(path, name string) bool {
	by := d.places[join(path, dependsOn[name])]
	return dependsOn[name] != "" && by != nil && by.failed
}

// place is where the file sets a field. For a field that is not written it is the
// field that its value derives from, else the mapping that it belongs in.
func (d *decoder) place(path string) *node {
	if n := d.places[path]; n != nil {
		return n
	}
	parent, name := cutLast(path)
	if n := d.places[join(parent, derivedFrom[name])]; derivedFrom[name] != "" && n != nil {
		return n
	}
	if parent == "" {
		return d.places[""]
	}
	return d.place(parent)
}

// written is where the file sets a field, nil if it does not or has a mistake there.
func (d *decoder) written(path string) *node {
	if at := d.places[path]; at != nil && !at.failed {
		return at
	}
	return nil
}

// textOf is what a scalar that was read says, variables expanded; "" of none.
func (d *decoder) textOf(n *node) string {
	if n == nil {
		return ""
	}
	text, _, _ := d.expand(n, n.text)
	return text
}

// valid reports the errors of a package at n, the value that it has checked, and
// whether there are none. It is for checks of one value, which know no field.
func (d *decoder) valid(n *node, err error) bool {
	for _, e := range field.All(err) {
		d.fail(n, e.Problem, e.Fix)
	}
	return err == nil
}
