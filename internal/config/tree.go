package config

import (
	"slices"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// kind is what a node of the file is. Text and quoted text differ, since "100" in quotes
// is not taken for a number.
type kind uint8

const (
	isNull    kind = iota
	isText         // without quotes, and YAML takes it for text
	isQuoted       // text in quotes
	isBlock        // text after | or >
	isTyped        // a number or bool
	isList         // of items
	isMapping      // of members
	isRefused      // YAML that is not supported: see problem and fix
)

// node is a value in the file, with its place. The parser's tree is converted once;
// all later code knows nodes only.
type node struct {
	kind         kind
	line, column int
	parent       *node

	text         string   // of a scalar
	items        []*node  // of a list
	members      []member // of a mapping
	problem, fix string   // of isRefused

	path   string // of the setting, such as rules[0].rate; set when it is read
	field  string // path of the Go field that it fills, such as Policy.Rules[0].Limit.Rate
	failed bool   // an error about it or something in it is reported
}

// has reports whether a mapping has a setting of that name, right or wrong.
func (n *node) has(name string) bool {
	return slices.ContainsFunc(n.members, func(m member) bool { return m.key.text == name })
}

// member is a setting of a mapping. Its key is text, or refused. Members are a slice: the
// order of the file is that of the errors, and duplicates have to be kept.
type member struct{ key, value *node }

// convert turns the parser's tree into nodes. What is not supported becomes a node that
// says so: whether it is reported depends on where it stands, since below an unknown
// setting nothing is.
func convert(n ast.Node) *node {
	out, t := &node{}, n.GetToken()
	switch v := n.(type) {
	case *ast.MappingNode:
		if !v.IsFlowStyle && len(v.Values) > 0 {
			t = v.Values[0].Key.GetToken() // its own token is a colon
		}
		out.addMembers(v.Values...)
	case *ast.MappingValueNode:
		t = v.Key.GetToken()
		out.addMembers(v)
	case *ast.SequenceNode:
		out.kind, out.items = isList, make([]*node, len(v.Values))
		for i, e := range v.Values {
			out.items[i] = convert(joinSplitScalar(e))
			out.items[i].parent = out
		}
	case *ast.NullNode:
	case *ast.StringNode:
		out.kind, out.text = isQuoted, v.Value
		if v.Token.Type == token.StringType {
			out.kind = isText
		}
	case *ast.LiteralNode:
		out.kind, out.text = isBlock, v.Value.Value
	case *ast.AnchorNode:
		out.refuse("an anchor: anchors and aliases are not supported", "write the value out")
	case *ast.AliasNode:
		out.refuse("an alias: anchors and aliases are not supported", "write the value out")
	case *ast.TagNode:
		out.refuse("a tag: YAML tags are not supported", "remove "+t.Value)
	case *ast.MergeKeyNode:
		out.refuse("merge keys (<<) are not supported", "write the settings out")
	default:
		out.kind, out.text = isTyped, t.Value
	}
	out.line, out.column = t.Position.Line, t.Position.Column
	return out
}

func (n *node) refuse(problem, fix string) { n.kind, n.problem, n.fix = isRefused, problem, fix }

// addMembers keeps members that have the same key: [section.accept] reports the second
// with the line of the first.
func (n *node) addMembers(values ...*ast.MappingValueNode) {
	n.kind, n.members = isMapping, make([]member, len(values))
	for i, v := range values {
		key, value := convert(v.Key), convert(v.Value)
		if key.kind != isRefused {
			if _, text := v.Key.(*ast.StringNode); !text {
				key.text = v.Key.GetToken().Value
			}
		}
		if value.kind == isNull { // an absent value has no place of its own
			value.line, value.column = key.line, key.column
		}
		key.parent, value.parent = n, n
		n.members[i] = member{key, value}
	}
}

// child is the path of a setting in n.
func (n *node) child(name string) string { return join(n.path, name) }

func join(path, name string) string {
	switch {
	case path == "":
		return name
	case name == "":
		return path
	}
	return path + "." + name
}

// what describes a node in an error message: what the user sees at its place.
func (n *node) what() string {
	switch n.kind {
	case isMapping:
		return "a mapping"
	case isList:
		return "a list"
	case isText, isQuoted:
		return "the text " + quote(n.text)
	case isBlock:
		return "a block of text"
	}
	return n.text
}

// joinSplitScalar works around a bug of the tokenizer (go-yaml 1.19.2): in a list inside { }
// it takes a:b for a mapping, though YAML requires a space after the colon. With it
// {key: [ip, header:X-Api-Key]} reads as in block style.
func joinSplitScalar(n ast.Node) ast.Node {
	m, ok := n.(*ast.MappingNode)
	if !ok || m.IsFlowStyle || len(m.Values) != 1 {
		return n
	}
	v := m.Values[0]
	key, colon, value := v.Key.GetToken(), v.Start, v.Value.GetToken()
	if !isPlain(key) || !isPlain(value) ||
		value.Position.Line != colon.Position.Line || value.Position.Column != colon.Position.Column+1 {
		return n
	}
	t := key.Clone()
	t.Type = token.StringType
	t.Value = key.Value + ":" + value.Value
	return ast.String(t)
}

// isPlain reports whether t is a scalar without quotes.
func isPlain(t *token.Token) bool {
	return slices.Contains([]token.Type{token.StringType, token.IntegerType, token.FloatType, token.BoolType}, t.Type)
}
