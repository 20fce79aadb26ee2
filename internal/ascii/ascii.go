// Package ascii has the digits that escapes, chunk sizes and logs are made of.
package ascii

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
