package replay

import (
	"bytes"

	"github.com/fastlimit/fastlimit/internal/ascii"
)

// unescape decodes the escapes of nginx (\xHH) and Apache (\", \\, \n, \xHH and
// others of C). It returns nil for "-", an absent value. The result borrows from b,
// or from p until the next line.
func (p *parser) unescape(b []byte) []byte {
	if len(b) == 1 && b[0] == '-' {
		return nil
	}
	if bytes.IndexByte(b, '\\') < 0 {
		return b
	}
	start := len(p.text)
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' || i+1 == len(b) {
			p.text = append(p.text, b[i])
			continue
		}
		i++
		if b[i] == 'x' && i+2 < len(b) {
			if hi, lo := ascii.Hex(b[i+1]), ascii.Hex(b[i+2]); hi >= 0 && lo >= 0 {
				p.text = append(p.text, byte(hi<<4|lo))
				i += 2
				continue
			}
		}
		p.text = append(p.text, escaped(b[i]))
	}
	return p.text[start:]
}

// escaped returns the byte that a backslash and c mean; an unknown escape means c itself.
func escaped(c byte) byte {
	if i := bytes.IndexByte([]byte("abtnvfr"), c); i >= 0 {
		return '\a' + byte(i) // in ASCII order, \a to \r
	}
	return c
}
