package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fastlimit/fastlimit/internal/safetext"
)

// Error is one mistake in a configuration file.
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

// Errors are all mistakes in a file, in the order of the file; those in files that it names
// follow. It is the type of the
// errors that [Load], [LoadFrom] and [Parse] return.
type Errors []*Error

// Error is all the lines, without a newline at the end.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// sort puts the errors in order; file is the one that names the others.
func (es Errors) sort(file string) {
	named := func(e *Error) int {
		if e.File == file {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(es, func(a, b *Error) int {
		if of := cmp.Compare(named(a), named(b)); of != 0 || named(a) > 0 { // those of one file are in order already
			return of
		}
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// maxErrors bounds a report. A file with more mistakes is not a configuration.
const maxErrors = 1000

// maxQuoted bounds how much of a value a message shows, in bytes. Settings that hold a
// secret show none of it; see anyText.
const maxQuoted = 60

// quote shows a value in a message: clipped, and on one line.
func quote(s string) string { return strconv.Quote(safetext.Clip(s, maxQuoted)) }
