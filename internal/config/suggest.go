package config

import (
	"strconv"
	"strings"

	"github.com/fastlimit/fastlimit/internal/spelling"
)

// suggest lists the valid settings, and first the one that name is probably a
// misspelling of.
func suggest(name string, s *section) string {
	var valid []string
	for _, f := range s.settings {
		if f.value.read != nil {
			valid = append(valid, f.name)
		}
	}
	// The list is always shown: the suggestion may be wrong, and names are few.
	return spelling.Question(name, valid) + "valid here: " + strings.Join(valid, ", ")
}

// printable shows the unknown name of a setting in its path: quoted where it would not
// read as one word. It is raw text of the file, and messages go to terminals and logs.
func printable(name string) string {
	odd := func(r rune) bool { return r <= ' ' || r == ':' || !strconv.IsPrint(r) }
	if name == "" || len(name) > maxQuoted || strings.ContainsFunc(name, odd) {
		return quote(name)
	}
	return name
}
