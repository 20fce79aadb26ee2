// Package text has what several rooms of the server do with bytes that clients
// wrote.
package text

import "github.com/fastlimit/fastlimit/internal/safetext"

// MaxLogged is the most bytes of a client's text that a log line has.
const MaxLogged = 128

// Printable makes text of a client fit for any log: escaped if anything in it
// is not printable ASCII, and cut.
func Printable(s string) string { return safetext.ASCII(s, MaxLogged) }

// IsName reports whether a token is the name, which is in lower case and as
// long.
func IsName(token []byte, name string) bool {
	for i := range len(name) {
		c := token[i]
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != name[i] {
			return false
		}
	}
	return true
}

// TrimBlanks removes the optional white space around a value.
func TrimBlanks(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}
