// Package text has what several rooms of the server do with bytes that clients
// wrote.
package text

import (
	"bytes"
	"strings"

	"github.com/fastlimit/fastlimit/internal/safetext"
)

// MaxLogged is the most bytes of a client's text that a log line has.
const MaxLogged = 128

// Printable makes text of a client fit for any log: escaped if anything in it
// is not printable ASCII, and cut.
func Printable(s string) string { return safetext.ASCII(s, MaxLogged) }

// IsName reports whether b is the name, which is ASCII, in any case. The lengths
// are compared first because EqualFold folds letters beyond ASCII, which are
// longer: the Kelvin sign is no k here.
func IsName(b []byte, name string) bool {
	return len(b) == len(name) && strings.EqualFold(string(b), name)
}

// TrimBlanks removes the optional white space around a value, RFC 9110 §5.6.3.
func TrimBlanks(b []byte) []byte { return bytes.Trim(b, " \t") }
