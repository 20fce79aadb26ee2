package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// node is a value in the file, with its place and the path of its setting.
type node struct {
	path         string
	line, column int
	ast          ast.Node
}

func newNode(path string, n ast.Node) node {
	t := n.GetToken()
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		t = m.Values[0].Key.GetToken() // its own token is a colon
	}
	if m, ok := n.(*ast.MappingValueNode); ok {
		t = m.Key.GetToken()
	}
	return node{path: path, line: t.Position.Line, column: t.Position.Column, ast: n}
}

// child is the path of a setting in n.
func (n node) child(key string) string {
	if n.path == "" {
		return key
	}
	return n.path + "." + key
}

func (n node) isNull() bool {
	_, ok := n.ast.(*ast.NullNode)
	return ok
}

func (n node) isMapping() bool {
	switch n.ast.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return true
	}
	return false
}

// kind is what a node is, in the words of an error message.
func (n node) kind() string {
	switch v := n.ast.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	case *ast.StringNode:
		return "the text " + quote(v.Value)
	case *ast.LiteralNode:
		return "a block of text"
	case *ast.AnchorNode:
		return "an anchor"
	case *ast.AliasNode:
		return "an alias"
	case *ast.TagNode:
		return "a tag"
	}
	return n.ast.GetToken().Value
}

// scalar is a value as text.
type scalar struct {
	text     string
	plain    bool // without quotes, as YAML numbers must be
	isText   bool // YAML takes it for text
	expanded bool // holds a variable, so that YAML could not tell its type
}

// number tells whether the text may be read as a number or bool.
func (s scalar) number() bool { return s.plain || s.expanded }

// scalar returns a value that is neither list nor mapping, with ${NAME}
// expanded. want says what it should be, with an example: "a rate such as 5/s".
func (d *decoder) scalar(n node, want string) (scalar, bool) {
	var s scalar
	switch v := n.ast.(type) {
	case *ast.StringNode:
		s = scalar{text: v.Value, plain: v.Token.Type == token.StringType, isText: true}
	case *ast.LiteralNode:
		s = scalar{text: v.Value.Value, isText: true}
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		s = scalar{text: v.GetToken().Value, plain: true}
	default:
		d.mismatch(n, want)
		return s, false
	}
	var ok bool
	if s.text, s.expanded, ok = d.expand(n, s.text); !ok {
		return s, false
	}
	if s.text == "" {
		d.fail(n, "is empty", "want "+want)
		return s, false
	}
	return s, true
}

// text returns a value that is text. Numbers must be quoted, as YAML has read
// them already: 1e3 and 007 would not come out as they were written.
func (d *decoder) text(n node, want string) (string, bool) {
	s, ok := d.scalar(n, want)
	if ok && !s.isText {
		d.fail(n, s.text+" is not text", "write it in quotes: "+strconv.Quote(s.text))
		return "", false
	}
	return s.text, ok
}

func (d *decoder) boolean(n node) (value, ok bool) {
	const want = "true or false"
	s, ok := d.scalar(n, want)
	switch {
	case !ok:
		return false, false
	case s.number() && s.text == "true":
		return true, true
	case s.number() && s.text == "false":
		return false, true
	}
	d.fail(n, quote(s.text)+" is neither true nor false", "write true or false, without quotes")
	return false, false
}

// whole returns a whole number of at least 1.
func (d *decoder) whole(n node, example string) (uint64, bool) {
	s, ok := d.scalar(n, "a whole number such as "+example)
	if !ok {
		return 0, false
	}
	digits := strings.Trim(s.text, "0123456789") == ""
	v, err := strconv.ParseUint(s.text, 10, 64)
	switch {
	case digits && !s.number():
		d.fail(n, quote(s.text)+" is text", "write the number without quotes")
	case digits && err != nil:
		d.fail(n, s.text+" is too large", "want a number below 2^64")
	case err != nil:
		d.fail(n, quote(s.text)+" is not a whole number", "write for example "+example)
	case v == 0:
		d.fail(n, "0 is too small", "want at least 1")
	default:
		return v, true
	}
	return 0, false
}

// fraction returns a number in plain decimal notation.
func (d *decoder) fraction(n node, example string) (float64, bool) {
	s, ok := d.scalar(n, "a number such as "+example)
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseFloat(s.text, 64)
	if err != nil || !s.number() || strings.Trim(s.text, "-.0123456789") != "" {
		d.fail(n, quote(s.text)+" is not a decimal number", "write for example "+example+", without quotes")
		return 0, false
	}
	return v, true
}

// items returns the elements of a list.
func (d *decoder) items(n node, want string) []node {
	seq, ok := n.ast.(*ast.SequenceNode)
	if !ok {
		d.mismatch(n, want)
		return nil
	}
	all := make([]node, len(seq.Values))
	for i, v := range seq.Values {
		all[i] = newNode(fmt.Sprintf("%s[%d]", n.path, i), glue(v))
	}
	return all
}

// oneOrMore returns the elements of a list, or the value itself. An empty list
// is an error: it would read as "nothing" and mean "everything".
func (d *decoder) oneOrMore(n node) []node {
	seq, ok := n.ast.(*ast.SequenceNode)
	switch {
	case !ok:
		return []node{n}
	case len(seq.Values) == 0:
		d.fail(n, "the list is empty", "write an element, or remove the setting")
		return nil
	}
	return d.items(n, "a list")
}
