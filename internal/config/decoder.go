package config

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/fastlimit/fastlimit/internal/field"
	"github.com/goccy/go-yaml/ast"
)

// decoder turns a tree into a Config and collects what is wrong. Not safe for
// concurrent use.
type decoder struct {
	file      string
	lookupEnv func(string) (string, bool)
	machine   machine
	cfg       *Config
	errs      Errors
}

func (d *decoder) add(e *Error) {
	if len(d.errs) < maxErrors {
		e.File = d.file
		d.errs = append(d.errs, e)
	}
}

func (d *decoder) fail(n node, problem, fix string) {
	d.add(&Error{Line: n.line, Column: n.column, Setting: n.path, Problem: problem, Fix: fix})
}

// failWith reports what the package that knows a value says of it; fix is used
// if it has none.
func (d *decoder) failWith(n node, err error, fix string) {
	for _, e := range field.All(err) {
		d.fail(n, clip(e.Problem, 300), clip(cmp.Or(e.Fix, fix), 300))
	}
}

// missing reports a setting that n lacks.
func (d *decoder) missing(n node, key, fix string) {
	n.path = n.child(key)
	d.fail(n, "missing", fix)
}

// mismatch reports a value of the wrong kind.
func (d *decoder) mismatch(n node, want string) {
	switch n.ast.(type) {
	case *ast.NullNode:
		fix := "want " + want
		if strings.HasPrefix(want, "a mapping") || strings.HasPrefix(want, "settings") {
			fix += ", or indent its settings more than it"
		}
		d.fail(n, "has no value", fix)
	case *ast.AnchorNode, *ast.AliasNode:
		d.fail(n, n.kind()+": anchors and aliases are not supported", "write the value out")
	case *ast.TagNode:
		d.fail(n, n.kind()+": YAML tags are not supported", "remove "+n.ast.GetToken().Value)
	default:
		d.fail(n, "found "+n.kind(), "want "+want)
	}
}

// setting is one of a mapping.
type setting struct {
	name string
	read func(node) // nil: not supported by this version
}

// mapping reads the settings of n in the order of the file. It reports those
// that are unknown, written twice or not supported.
func (d *decoder) mapping(n node, want string, fields []setting) bool {
	var values []*ast.MappingValueNode
	switch v := n.ast.(type) {
	case *ast.MappingNode:
		values = v.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{v}
	default:
		d.mismatch(n, want)
		return false
	}
	lines := make(map[string]int, len(values))
	for _, v := range values {
		key, ok := d.key(n, v.Key)
		if !ok {
			continue
		}
		f, known := find(fields, key.path)
		first, twice := lines[key.path]
		name := key.path
		key.path = n.child(name)
		switch {
		case !known:
			key.path = n.child(printable(name))
			d.unknown(key, name, fields)
			continue
		case twice:
			d.fail(key, fmt.Sprintf("already set on line %d", first), "remove one of the two")
			continue
		}
		lines[name] = key.line
		if f.read == nil {
			d.unsupported(key)
			continue
		}
		value := newNode(key.path, v.Value)
		if value.isNull() { // it may stand nowhere
			value.line, value.column = key.line, key.column
		}
		f.read(value)
	}
	return true
}

// key returns the name of a key as the path of its node.
func (d *decoder) key(n node, k ast.MapKeyNode) (node, bool) {
	key := newNode(n.path, k)
	switch v := k.(type) {
	case *ast.StringNode:
		key.path = v.Value
	case *ast.MergeKeyNode:
		d.fail(key, "merge keys (<<) are not supported", "write the settings out")
		return key, false
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		d.mismatch(key, "the name of a setting")
		return key, false
	default:
		key.path = k.GetToken().Value
	}
	return key, true
}

// renamed are the old names of settings.
var renamed = map[string]string{"heavy_hitters": "top_talkers"}

func (d *decoder) unknown(key node, name string, fields []setting) {
	if now, ok := find(fields, renamed[name]); ok {
		d.fail(key, "is now called "+now.name, "write "+now.name)
		return
	}
	problem := "unknown setting"
	if home := homeOf(key.path, name); home != "" { // mostly the indentation is wrong
		problem += " here; it belongs " + home
	}
	d.fail(key, problem, suggest(name, fields))
}

func (d *decoder) unsupported(n node) {
	d.fail(n, "not supported by this version", "remove it")
}

func find(fields []setting, name string) (setting, bool) {
	for _, f := range fields {
		if f.name == name {
			return f, true
		}
	}
	return setting{}, false
}

// choice returns the index of the value in names.
func (d *decoder) choice(n node, names ...string) (int, bool) {
	want := strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
	s, ok := d.scalar(n, want)
	if !ok {
		return 0, false
	}
	for i, name := range names {
		if s.text == name {
			return i, true
		}
	}
	d.fail(n, quote(s.text)+" is not a known value", "write "+want)
	return 0, false
}
