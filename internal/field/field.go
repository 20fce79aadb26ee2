// Package field has the error that every configuration check of this module
// returns: data that a caller can map to wherever the value came from, such as
// a line of a file. Package fastlimit exports it as FieldError.
package field

import (
	"errors"
	"strconv"
	"strings"
)

// Error is one thing that is wrong with one field of a configuration. Checks
// that find several join them with [errors.Join]; see [All].
type Error struct {
	Package string // that checks it, for example "fastlimit/server"
	Rule    string // name of the rule that the field belongs to; empty if none
	Field   string // Go name, with the path to it: "Burst", "Connections.Max"
	Problem string // what is wrong, with the value: "5 is above Burst 3"
	Fix     string // what to write instead: "want 1 to 3"; empty if unknown
}

// Error implements error: "fastlimit: rule "x": Cost: 5 is above Burst 3: lower it".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Package)
	if e.Rule != "" {
		b.WriteString(": rule " + strconv.Quote(e.Rule))
	}
	for _, part := range []string{e.Field, e.Problem, e.Fix} {
		if part != "" {
			b.WriteString(": " + part)
		}
	}
	return b.String()
}

// All returns every [Error] that err joins or wraps, in order. Other errors
// are left out.
func All(err error) []*Error {
	switch e := err.(type) { //nolint:errorlint // this is what walks the tree
	case nil:
		return nil
	case *Error:
		return []*Error{e}
	case interface{ Unwrap() []error }:
		var all []*Error
		for _, one := range e.Unwrap() {
			all = append(all, All(one)...)
		}
		return all
	}
	return All(errors.Unwrap(err))
}
