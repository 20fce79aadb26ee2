// Package text handles text that clients have sent.
package text

import (
	"strings"

	"github.com/fastlimit/fastlimit/internal/safetext"
)

// MaxLogged is how many bytes of a client's text a log line may have.
const MaxLogged = 128

// Printable makes a client's text safe to log: escaped unless all of it is printable ASCII, and cut.
func Printable(s string) string { return safetext.ASCII(s, MaxLogged) }

// IsName reports whether b is the name, which is ASCII, in any case. The lengths are compared first because
// EqualFold also folds longer letters beyond ASCII, such as the Kelvin sign, which is not a k here.
func IsName(b []byte, name string) bool {
	return len(b) == len(name) && strings.EqualFold(string(b), name)
}

// TrimBlanks removes the optional white space around a value, RFC 9110 §5.6.3.
func TrimBlanks(b []byte) []byte {
	for len(b) > 0 && isBlank(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isBlank(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }
