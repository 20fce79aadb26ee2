// Package mistake has mistakes in files that users write, each with its place and the fix.
package mistake

import (
	"fmt"
	"strings"
)

// Error is one mistake.
type Error struct {
	File         string
	Line, Column int    // from 1, in characters; 0 if the error has no place
	Setting      string // such as "rules[0].rate"; empty if it is about none
	Problem      string // what is wrong
	Fix          string // what to write instead; may be empty
}

// Error is one line: file:line:column: setting: problem; fix.
func (e *Error) Error() string {
	text := e.File
	if e.Line > 0 {
		text += fmt.Sprintf(":%d:%d", e.Line, e.Column)
	}
	if e.Setting != "" {
		text += ": " + e.Setting
	}
	text += ": " + e.Problem
	if e.Fix != "" {
		text += "; " + e.Fix
	}
	return text
}

// Errors are all mistakes that were found, in the order of the files.
type Errors []*Error

// Error is all the lines, without a newline at the end.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}
