package nginxconf

import (
	"fmt"
	"strings"
)

// token is a word, or one of ; { } as its kind.
type token struct {
	kind byte // 'w' a word, ';', '{', '}', or 0 at the end
	text string
	line int
}

// lexer splits the text of one file as ngx_conf_read_token does. Not safe for
// concurrent use.
type lexer struct {
	file, text string
	at, line   int
}

func (l *lexer) fail(line int, format string, args ...any) error {
	return &Error{File: l.file, Line: line, Problem: fmt.Sprintf(format, args...)}
}

// next returns the next token. A word ends at white space, a semicolon or an opening
// brace; a quote or a closing brace means something at the start of a word only.
func (l *lexer) next() (token, error) {
	l.skipSpace()
	if l.at == len(l.text) {
		return token{line: l.line}, nil
	}
	line := l.line
	switch c := l.text[l.at]; c {
	case ';', '{', '}':
		l.at++
		return token{kind: c, line: line}, nil
	case '"', '\'':
		text, err := l.quoted(c)
		return token{'w', text, line}, err
	}
	return token{'w', l.word(), line}, nil
}

// skipSpace skips white space and comments.
func (l *lexer) skipSpace() {
	for l.at < len(l.text) {
		switch c := l.text[l.at]; {
		case c == '\n':
			l.line++
		case isSpace(c):
		case c == '#':
			for l.at < len(l.text) && l.text[l.at] != '\n' {
				l.at++
			}
			continue
		default:
			return
		}
		l.at++
	}
}

// word reads a word without quotes. ${name} is part of it.
func (l *lexer) word() string {
	var b strings.Builder
	for l.at < len(l.text) {
		c := l.text[l.at]
		switch {
		case isSpace(c), c == ';', c == '{':
			return b.String() // the next token begins with it
		case c == '\\' && l.at+1 < len(l.text): // else it is the last character
			l.escaped(&b)
			continue
		case c == '$' && strings.HasPrefix(l.text[l.at+1:], "{"):
			b.WriteByte(c)
			c = '{'
			l.at++
		}
		b.WriteByte(c)
		l.at++
	}
	return b.String()
}

// quoted reads a word in quotes.
func (l *lexer) quoted(quote byte) (string, error) {
	var b strings.Builder
	start := l.line
	for l.at++; l.at < len(l.text); {
		switch c := l.text[l.at]; {
		case c == quote:
			// nginx refuses what follows without a space, but for the parenthesis of an if.
			l.at++
			if l.at < len(l.text) && !isSpace(l.text[l.at]) && !strings.ContainsRune(";{)", rune(l.text[l.at])) {
				return "", l.fail(l.line, "%q follows a closing quote; put a space between them", l.text[l.at])
			}
			return b.String(), nil
		case c == '\\' && l.at+1 < len(l.text):
			l.escaped(&b)
		default:
			if c == '\n' {
				l.line++
			}
			b.WriteByte(c)
			l.at++
		}
	}
	return "", l.fail(start, "the quote that begins here is not closed")
}

// escaped reads a backslash and what follows. It goes in front of quotes, of itself
// and of letters for white space; anywhere else it stays, as in \d of a regular
// expression.
func (l *lexer) escaped(b *strings.Builder) {
	c := l.text[l.at+1]
	switch c {
	case '"', '\'', '\\':
		b.WriteByte(c)
	case 't':
		b.WriteByte('\t')
	case 'r':
		b.WriteByte('\r')
	case 'n':
		b.WriteByte('\n')
	default:
		b.WriteByte('\\')
		b.WriteByte(c)
	}
	if c == '\n' {
		l.line++
	}
	l.at += 2
}

// lua skips the code of a block of Lua up to its closing brace: braces in strings and
// comments do not count.
func (l *lexer) lua() error {
	start, depth := l.line, 1
	for l.at < len(l.text) {
		// Each case goes on by what it has read, or else by one character below.
		rest := l.text[l.at:]
		switch c := rest[0]; {
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				l.at++
				return nil
			}
		case c == '"', c == '\'':
			l.skip(luaString(rest))
			continue
		case strings.HasPrefix(rest, "--"):
			if long := luaLong(rest[2:]); long > 0 {
				l.skip(2 + long) // a comment of several lines
			} else if end := strings.IndexByte(rest, '\n'); end >= 0 {
				l.skip(end)
			} else {
				l.skip(len(rest))
			}
			continue
		case c == '[':
			if long := luaLong(rest); long > 0 {
				l.skip(long)
				continue
			}
		}
		l.skip(1)
	}
	return l.fail(start, "the block of Lua that begins here is not closed")
}

// skip goes n bytes on.
func (l *lexer) skip(n int) {
	l.line += strings.Count(l.text[l.at:l.at+n], "\n")
	l.at += n
}

// luaString is the length of the string in quotes that s begins with. All of s, if
// it has no end: the block is not closed then either.
func luaString(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0], '\n': // a line ends a string that is not closed
			return i + 1
		}
	}
	return len(s)
}

// luaLong is the length of the text in long brackets, [[…]] or [=[…]=], that s begins
// with; 0 if it does not.
func luaLong(s string) int {
	if !strings.HasPrefix(s, "[") {
		return 0
	}
	level := 1 // index of the second bracket
	for level < len(s) && s[level] == '=' {
		level++
	}
	if level == len(s) || s[level] != '[' {
		return 0
	}
	end := "]" + s[1:level] + "]"
	if i := strings.Index(s[level+1:], end); i >= 0 {
		return level + 1 + i + len(end)
	}
	return len(s)
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
