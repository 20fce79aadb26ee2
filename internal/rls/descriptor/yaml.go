package descriptor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/fastlimit/fastlimit/internal/mistake"
	"github.com/fastlimit/fastlimit/internal/safetext"
	"github.com/fastlimit/fastlimit/internal/spelling"
	"go.yaml.in/yaml/v3"
)

// Bounds on a file, far above those in use: aliases can make a small file large.
const (
	maxNesting = 64
	maxNodes   = 5_000_000
	maxErrors  = 1000
	maxQuoted  = 60
)

// ParseYAML reads a file in envoyproxy/ratelimit's format. name is for errors. It returns
// all mistakes, and as warnings what upstream ignores without a word. What it could read is
// in the configuration, which is nil if the file is not YAML. Anchors, aliases and merge
// keys mean what they do in YAML.
func ParseYAML(name string, data []byte) (c *Config, warnings, errs mistake.Errors) {
	return parse(name, data, maxNodes)
}

func parse(name string, data []byte, most int) (c *Config, warnings, errs mistake.Errors) {
	r := reader{file: name, most: most}
	c = &Config{Name: name, Place: Place{1, 1}}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) { // an empty file has no domain, which New reports
			return c, nil, nil
		}
		r.syntax(err)
		return nil, nil, r.errs
	}
	if dec.Decode(&second) == nil {
		r.warn(placeOf(&second), "", "a second document is ignored", "use a file for each")
	}
	r.root(c, doc.Content[0])
	return c, r.warnings, r.errs
}

// reader reads one file. Not safe for concurrent use.
type reader struct {
	file           string
	warnings, errs mistake.Errors
	depth, nodes   int
	most           int // nodes
}

func placeOf(n *yaml.Node) Place { return Place{n.Line, n.Column} }

func (r *reader) fail(p Place, setting, wrong, fix string) {
	if len(r.errs) < maxErrors {
		r.errs = append(r.errs, &mistake.Error{File: r.file, Line: p.Line, Column: p.Column, Setting: setting, Problem: wrong, Fix: fix})
	}
}

func (r *reader) warn(p Place, setting, wrong, fix string) {
	if len(r.warnings) < maxErrors {
		r.warnings = append(r.warnings, &mistake.Error{File: r.file, Line: p.Line, Column: p.Column, Setting: setting, Problem: wrong, Fix: fix})
	}
}

// inLine finds the place in a message of the parser, which has no other.
var inLine = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?(?s:(.*))$`)

func (r *reader) syntax(err error) {
	m := inLine.FindStringSubmatch(err.Error())
	line, _ := strconv.Atoi(m[1])
	message := strings.NewReplacer("\n", " ", "\r", " ").Replace(m[2])
	r.fail(Place{max(1, line), 1}, "", "YAML: "+safetext.Clip(message, 200), "check the indentation and the quotes")
}

// setting reads one value.
type setting func(value *yaml.Node)

// known are all settings. Upstream takes each of them anywhere, and ignores those that
// have no meaning there.
var known = map[string]bool{
	"domain": true, "descriptors": true, "key": true, "value": true, "rate_limit": true, "unit": true, "requests_per_unit": true,
	"unlimited": true, "shadow_mode": true, "quota_mode": true, "name": true, "replaces": true, "detailed_metric": true,
	"value_to_metric": true, "share_threshold": true, "metadata": true,
}

// mapping reads the settings of a mapping.
func (r *reader) mapping(n *yaml.Node, what string, settings map[string]setting) {
	if n = r.resolve(n); n == nil {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.fail(placeOf(n), "", fmt.Sprintf("%s is %s", what, describe(n)), "want a mapping: "+list(settings))
		return
	}
	if r.depth++; r.depth > maxNesting {
		r.fail(placeOf(n), "", fmt.Sprintf("nested deeper than %d levels", maxNesting), "no request has so many entries")
	} else {
		r.each(n, map[string]Place{}, func(key, value *yaml.Node) { r.member(key, value, what, settings) })
	}
	r.depth--
}

func (r *reader) member(key, value *yaml.Node, what string, settings map[string]setting) {
	read := settings[key.Value]
	switch {
	case key.Kind != yaml.ScalarNode || key.Tag != "!!str":
		r.fail(placeOf(key), "", fmt.Sprintf("the name of a setting is %s", describe(key)), "want "+list(settings))
	case read != nil:
		read(value)
	case known[key.Value]:
		r.warn(placeOf(key), key.Value, "has no meaning in "+what, "want "+list(settings))
	default:
		r.fail(placeOf(key), safetext.Clip(key.Value, maxQuoted), "unknown setting",
			spelling.Question(key.Value, sortedKeys(settings))+"want "+list(settings))
	}
}

// each calls f for the members of a mapping. Those of mappings that it merges ("<<") come
// after its own, and only if it has none of that name.
func (r *reader) each(n *yaml.Node, seen map[string]Place, f func(key, value *yaml.Node)) {
	var merged []*yaml.Node
	own := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		first, again := seen[key.Value]
		switch {
		case r.tooMany(key):
			return
		case key.Tag == "!!merge":
			merged = append(merged, value)
		case own[key.Value]:
			r.fail(placeOf(key), key.Value, fmt.Sprintf("written twice, first in line %d", first.Line), "remove one")
		case !again:
			own[key.Value], seen[key.Value] = true, placeOf(key)
			f(key, value)
		}
	}
	for _, m := range merged {
		r.merge(m, seen, f)
	}
}

// tooMany counts a node, and reports whether there are too many.
func (r *reader) tooMany(n *yaml.Node) bool {
	if r.nodes++; r.nodes == r.most {
		r.fail(placeOf(n), "", fmt.Sprintf("more than %d values, aliases resolved", r.most), "is this the right file?")
	}
	return r.nodes >= r.most
}

// merge is each for what a mapping merges: a mapping, or a list of them.
func (r *reader) merge(n *yaml.Node, seen map[string]Place, f func(key, value *yaml.Node)) {
	if r.depth++; r.depth <= maxNesting {
		switch n = r.resolve(n); {
		case n == nil:
		case n.Kind == yaml.MappingNode:
			r.each(n, seen, f)
		case n.Kind == yaml.SequenceNode:
			for _, item := range n.Content {
				r.merge(item, seen, f)
			}
		default:
			r.fail(placeOf(n), "<<", "merges "+describe(n), "want an alias of a mapping")
		}
	}
	r.depth--
}

// resolve follows an alias.
func (r *reader) resolve(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// list reads the items of a list; no value is an empty one.
func (r *reader) list(n *yaml.Node, name string, item func(*yaml.Node)) {
	switch n = r.resolve(n); {
	case n == nil || isNull(n):
	case n.Kind == yaml.SequenceNode:
		for _, i := range n.Content {
			item(i)
		}
	default:
		r.fail(placeOf(n), name, "is "+describe(n), "want a list")
	}
}

// text reads text, numbers and the like as they are written.
func (r *reader) text(into *string, name string) setting {
	return func(n *yaml.Node) {
		switch n = r.resolve(n); {
		case n.Kind != yaml.ScalarNode:
			r.fail(placeOf(n), name, "is "+describe(n), "want text")
		case !isNull(n):
			*into = n.Value
		}
	}
}

func (r *reader) bool(into *bool, name string) setting {
	return func(n *yaml.Node) {
		if n = r.resolve(n); !isNull(n) && n.Decode(into) != nil {
			r.fail(placeOf(n), name, "is "+describe(n), "want true or false")
		}
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// describe says what a node is.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "empty"
	}
	return strconv.Quote(safetext.Clip(n.Value, maxQuoted))
}

func list(settings map[string]setting) string {
	return strings.Join(sortedKeys(settings), ", ")
}
