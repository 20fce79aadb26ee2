// Package ascii has the classes of characters that HTTP and access logs are made
// of.
package ascii

import "strings"

// IsToken reports whether s is a token (RFC 9110, section 5.6.2): a method, the
// name of a header or of a cookie.
func IsToken(s string) bool {
	for i := range len(s) {
		if !IsAlnum(s[i]) && strings.IndexByte("!#$%&'*+-.^_`|~", s[i]) < 0 {
			return false
		}
	}
	return s != ""
}

// IsAlnum reports whether c is a letter or a digit.
func IsAlnum(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// Hex is the value of a hexadecimal digit, negative for other bytes.
func Hex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
