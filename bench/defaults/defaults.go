// Package defaults fills in options that are not set. A default stands in one
// place: the tag of its field, from which the command line takes it too.
package defaults

import "github.com/alecthomas/kong"

// Of returns o with the defaults of all fields that are zero. o is a struct with
// tags of kong.
func Of[T any](o T) T {
	if err := kong.ApplyDefaults(&o); err != nil {
		panic("BUG: " + err.Error())
	}
	return o
}
