package config

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/fastlimit/fastlimit/internal/mistake"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds on what the parser is given; see the package comment.
const (
	maxDepth = 32
	maxKeys  = 6000
)

const (
	secondDocument = "a second document"
	oneDocument    = "one file holds one configuration: remove what follows"
)

// parseYAML returns the tree of the only document, nil if it is empty.
func parseYAML(data []byte) (*node, *mistake.Error) {
	tokens := lexer.Tokenize(string(data))
	if e := checkTokens(tokens); e != nil {
		return nil, e
	}
	f, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, syntaxError(err, data)
	}
	var body *node
	for _, doc := range f.Docs {
		if doc.Body == nil {
			continue
		}
		n := convert(doc.Body)
		if body != nil {
			return nil, &mistake.Error{Line: n.line, Column: n.column, Problem: secondDocument, Fix: oneDocument}
		}
		body = n
	}
	return body, nil
}

// errorAt is an error at a token, before there are nodes.
func errorAt(t *token.Token, problem, fix string) *mistake.Error {
	return &mistake.Error{Line: t.Position.Line, Column: t.Position.Column, Problem: problem, Fix: fix}
}

// checkTokens refuses input that would keep the parser busy for seconds, and YAML
// features that are easier to recognize as a token than in the tree.
func checkTokens(tokens token.Tokens) *mistake.Error {
	flow, keys, line := 0, 0, 0
	content := false // a token other than a comment or "---" was seen
	var blocks []int // columns of the blocks that are open at the token
	for _, t := range tokens {
		switch t.Type {
		case token.CommentType:
			continue
		case token.DirectiveType:
			return errorAt(t, "a YAML directive", "remove the line")
		case token.DocumentHeaderType:
			if content {
				return errorAt(t, secondDocument, oneDocument)
			}
			continue
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow = max(0, flow-1) // the parser reports an end without a start
		case token.MappingValueType:
			keys++
		case token.MappingKeyType:
			return errorAt(t, `a complex key ("? ")`, "write key: value")
		}
		content = true
		if p := t.Position; flow == 0 && (p.Line != line || t.Type == token.SequenceEntryType) {
			line = p.Line
			blocks = openBlock(blocks, p.Column)
		}
		if flow > maxDepth || len(blocks) > maxDepth {
			return errorAt(t, fmt.Sprintf("nested deeper than %d levels", maxDepth), "no setting is")
		}
		if keys > maxKeys {
			return errorAt(t, fmt.Sprintf("more than %d keys", maxKeys), "256 rules need fewer: is this the right file?")
		}
	}
	return nil
}

// openBlock closes the blocks that a token at the column ends, and opens the one that
// it begins. Outside of brackets depth shows in columns only: blocks have no tokens.
func openBlock(blocks []int, column int) []int {
	for len(blocks) > 0 && blocks[len(blocks)-1] >= column {
		blocks = blocks[:len(blocks)-1]
	}
	return append(blocks, column)
}

// syntaxError turns an error of the parser into ours. The parser stops at the first
// one, so it is reported alone.
func syntaxError(err error, data []byte) *mistake.Error {
	var ye yaml.Error
	if !errors.As(err, &ye) || ye.GetToken() == nil {
		return &mistake.Error{Line: 1, Column: 1, Problem: "YAML: " + oneLine(err.Error()), Fix: generalFix}
	}
	t := ye.GetToken()
	problem, fix := describeSyntax(t, ye.GetMessage(), data)
	e := errorAt(t, problem, fix)
	// The tokenizer counts some escapes twice: keep the column within the line.
	e.Column = max(1, min(e.Column, 1+utf8.RuneCountInString(strings.TrimRight(sourceLine(data, e.Line), "\r\n"))))
	return e
}

// syntaxFix guesses the cause from the parser's message (go-yaml 1.19.2) and the line.
// A message that is new to it gets generalFix.
func syntaxFix(msg, line string) string {
	switch {
	case strings.Contains(msg, "cannot start any token") && strings.Contains(line, "\t"):
		return "indent with spaces instead of tabs"
	case strings.Contains(line, "${"):
		return `put quotes around "${…}"`
	case strings.Contains(msg, "must be specified"):
		return "close the bracket, or put the value in quotes"
	case strings.Contains(msg, "unknown escape character"):
		return "put the text in single quotes, or write the backslash twice"
	case strings.Contains(msg, "could not find end character"):
		return "close the quotes"
	case strings.Contains(msg, "mapping value is not allowed"):
		return indentFix
	case strings.Contains(msg, "invalid key for this map"), strings.Contains(msg, "unexpected scalar value type"), strings.Contains(msg, "reserved character"),
		strings.Contains(msg, "unexpected directive"), strings.Contains(msg, "value is not allowed"):
		return "put the value in quotes"
	}
	return generalFix
}

// generalFix names the two causes of nearly all syntax errors.
const generalFix = "check the indentation and the quotes"

// sourceLine returns line n of the file, with its end; "" if there is none.
func sourceLine(data []byte, n int) string {
	for line := range strings.Lines(string(data)) {
		if n--; n == 0 {
			return line
		}
	}
	return ""
}
