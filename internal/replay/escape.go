package replay

import "bytes"

// unescape undoes the escapes of nginx (\xHH) and Apache (\", \\, \n, \xHH and
// others of C). nil stands for "-", the absent value. The result borrows from
// b, or from p until the next line.
func (p *Parser) unescape(b []byte) []byte {
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
			if hi, lo := hexDigit(b[i+1]), hexDigit(b[i+2]); hi >= 0 && lo >= 0 {
				p.text = append(p.text, byte(hi<<4|lo))
				i += 2
				continue
			}
		}
		p.text = append(p.text, escaped(b[i]))
	}
	return p.text[start:]
}

func escaped(c byte) byte {
	if i := bytes.IndexByte([]byte("abtnvfr"), c); i >= 0 {
		return '\a' + byte(i) // in ASCII order, \a to \r
	}
	return c
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
