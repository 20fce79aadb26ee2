package screen

import (
	"io"
	"unicode/utf8"
)

// Key is a pressed key: a character, control characters included, or one of those below.
type Key rune

// Keys that are not characters.
const (
	KeyUp Key = -1 - iota
	KeyDown
	KeyPageUp
	KeyPageDown
	KeyHome
	KeyEnd
	KeyEscape
)

// sequences are what terminals send for keys (xterm, with and without application mode).
var sequences = map[string]Key{
	"[A": KeyUp, "[B": KeyDown, "OA": KeyUp, "OB": KeyDown,
	"[5~": KeyPageUp, "[6~": KeyPageDown,
	"[H": KeyHome, "[F": KeyEnd, "OH": KeyHome, "OF": KeyEnd, "[1~": KeyHome, "[4~": KeyEnd, "[7~": KeyHome, "[8~": KeyEnd,
}

// Keys reads keys until r fails, and then closes the channel. Nothing else ends it: a read from a terminal
// cannot be interrupted.
func Keys(r io.Reader) <-chan Key {
	keys := make(chan Key)
	go func() {
		defer close(keys)
		var b [256]byte
		for {
			n, err := r.Read(b[:])
			for rest := b[:n]; len(rest) > 0; {
				k, size := decode(rest)
				if rest = rest[size:]; k != 0 {
					keys <- k
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return keys
}

// decode takes a key off the bytes of one read; 0 means that it has no name here. An escape followed by
// nothing is the escape key.
func decode(b []byte) (k Key, size int) {
	if b[0] != 0x1b {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError {
			return 0, n
		}
		return Key(r), n
	}
	if len(b) == 1 || b[1] != '[' && b[1] != 'O' {
		return KeyEscape, 1
	}
	end := 2
	for end < len(b) && b[1] == '[' && (b[end] < '@' || b[end] > '~') { // parameters (ECMA-48, 5.4)
		end++
	}
	if end == len(b) {
		return 0, end
	}
	return sequences[string(b[1:end+1])], end + 1
}
