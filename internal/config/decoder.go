package config

import (
	"strings"

	"github.com/fastlimit/fastlimit/internal/field"
	"github.com/fastlimit/fastlimit/internal/safetext"
)

// decoder turns nodes into a Config and collects what is wrong. Not safe for
// concurrent use.
type decoder struct {
	file      string
	lookupEnv func(string) (string, bool)
	machine   machine
	cfg       *Config
	places    map[string]*node // of Go fields that the file sets, by their paths
	errs      Errors
}

func (d *decoder) add(e *Error) {
	if len(d.errs) < maxErrors {
		e.File = d.file
		d.errs = append(d.errs, e)
	}
}

func (d *decoder) fail(n *node, problem, fix string) {
	for up := n; up != nil; up = up.parent {
		up.failed = true
	}
	d.add(&Error{Line: n.line, Column: n.column, Setting: n.path, Problem: safetext.Clip(problem, maxProblem), Fix: safetext.Clip(fix, maxProblem)})
}

// maxProblem bounds what an error quotes of a value, in bytes.
const maxProblem = 600

// mismatch reports a value of the wrong kind.
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

// renamed are the old names of settings.
var renamed = map[string]string{"heavy_hitters": "top_talkers"}

func (d *decoder) unknown(key *node, s *section) {
	if now, ok := s.find(renamed[key.text]); ok {
		d.fail(key, "is now called "+now.name, "write "+now.name)
		return
	}
	problem := "unknown setting"
	if home := homeOf(key.path, key.text); home != "" { // mostly the indentation is wrong
		problem += " here; it belongs " + home
	}
	d.fail(key, problem, suggest(key.text, s))
}

// report puts the errors of a package at the places of the fields they are
// about, unless those are reported already. path is that of the struct.
func (d *decoder) report(path string, err error) {
	for _, e := range field.All(err) {
		if n := d.place(join(path, e.Field)); !n.failed && !d.hidden(path, e.Field) {
			d.fail(n, e.Problem, e.Fix)
		}
	}
}

// instead are the fields that a default derives from.
var instead = map[string]string{"Burst": "Rate"}

// hides are the fields without which others mean nothing.
var hides = map[string]string{"Cost": "Burst", "MasterName": "Addrs"}

func (d *decoder) hidden(path, name string) bool {
	by := d.places[join(path, hides[name])]
	return hides[name] != "" && by != nil && by.failed
}

// place is where the file sets a field, else what it derives from, else the
// mapping that it would stand in.
func (d *decoder) place(path string) *node {
	if n := d.places[path]; n != nil {
		return n
	}
	if list, index, ok := strings.Cut(strings.TrimSuffix(path, "]"), "["); ok && strings.HasSuffix(path, "]") && !strings.Contains(index, "[") {
		if n := d.places[list]; n != nil {
			for _, item := range n.elements() {
				if item.field == path {
					return item
				}
			}
		}
	}
	parent, name, _ := cutLast(path)
	if n := d.places[join(parent, instead[name])]; instead[name] != "" && n != nil {
		return n
	}
	if parent == "" {
		return d.places[""]
	}
	return d.place(parent)
}
