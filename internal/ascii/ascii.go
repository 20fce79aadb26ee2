// Package ascii parses hexadecimal digits one byte at a time, as in escapes and
// chunk sizes, without the strings and errors of package strconv.
package ascii

// Hex returns the value of a hexadecimal digit, or a negative number for any other
// byte. Setting bit 0x20 maps upper-case letters to lower-case ones.
func Hex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
