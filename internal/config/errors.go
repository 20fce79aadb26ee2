package config

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/fastlimit/fastlimit/internal/mistake"
	"github.com/fastlimit/fastlimit/internal/safetext"
)

// inOrder sorts errors; file is the one that names the others.
func inOrder(es mistake.Errors, file string) {
	named := func(e *mistake.Error) int {
		if e.File == file {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(es, func(a, b *mistake.Error) int {
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
