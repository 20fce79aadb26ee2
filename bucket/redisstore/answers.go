package redisstore

import (
	"bytes"
	"fmt"
	"net"
	"syscall"
)

// Bounds of an answer. go-redis allocates whatever its head announces, so that a few bytes
// could take all memory. The largest legitimate answers are a page of a registry (1 MiB),
// the slots of a cluster in many pieces, and the list of all commands.
const (
	maxLine     = 64 << 10 // bytes
	maxString   = 1 << 20
	maxArray    = 4096
	maxElements = 1 << 16 // of all arrays of an answer
	maxAnswer   = 4 << 20 // bytes
	maxDepth    = 16
)

// bind returns c with bounds. counts says that commands have numbers of any size as answers,
// and that none of them has an answer which go-redis could take such a number for the length
// of (a redis.SliceCmd).
func bind(c net.Conn, counts bool) net.Conn {
	b := bounded{Conn: c, answers: answers{counts: counts}}
	if tcp, ok := c.(*net.TCPConn); ok {
		return &boundedTCP{b, tcp}
	}
	return &b
}

// bounded is a connection whose answers are checked as they come. It has one reader at a
// time.
type bounded struct {
	net.Conn
	answers answers
}

// Read implements [net.Conn].
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	if bad := b.answers.add(p[:n]); bad != nil {
		return 0, bad
	}
	return n, err
}

// boundedTCP is a bounded whose socket go-redis can inspect before it uses it.
type boundedTCP struct {
	bounded
	tcp *net.TCPConn
}

// SyscallConn implements [syscall.Conn].
func (b *boundedTCP) SyscallConn() (syscall.RawConn, error) { return b.tcp.SyscallConn() }

// answers parses a stream of answers in RESP2 or RESP3, which sentinels are asked in, in
// pieces of any size. Attributes are not expected.
// https://redis.io/docs/latest/develop/reference/protocol-spec/
type answers struct {
	counts bool // see bind

	kind   byte          // of the line that has begun, 0 before it
	number int64         // the length that a line announces, -1 for nothing
	line   int           // bytes of it so far
	digits int           // of a line that is not a length
	text   bool          // it is not a number
	left   int           // bytes of a string that are still to come, including the line end
	open   [maxDepth]int // elements that are still to come of each array
	depth  int
	all    int // elements so far
	bytes  int // so far, including those that were announced
	err    error
}

// add parses a further piece. After the first error all pieces are refused.
func (a *answers) add(p []byte) error {
	for len(p) > 0 && a.err == nil {
		if a.left > 0 {
			n := min(a.left, len(p))
			if p, a.left = p[n:], a.left-n; a.left == 0 {
				a.ended()
			}
			continue
		}
		n := bytes.IndexByte(p, '\n') + 1
		whole := n > 0
		if !whole {
			n = len(p)
		}
		a.read(p[:n])
		if p = p[n:]; whole && a.err == nil {
			a.lineEnded()
		}
	}
	return a.err
}

// read reads a piece of a line.
func (a *answers) read(p []byte) {
	if a.line += len(p); a.line > maxLine {
		a.refuse("a line of more than %d bytes", maxLine)
		return
	}
	if a.kind == 0 {
		a.kind, a.number = p[0], 0
		p = p[1:]
	}
	switch a.kind {
	case '-':
	case '+', ':', '_', ',', '#', '(':
		a.readText(p)
	case '$', '!', '=', '*', '~', '>', '%':
		a.readNumber(p)
	default:
		a.refuse("a line that begins with %q", a.kind)
	}
}

// readText reads a piece of a line that is not a length. If the command's answer is an
// array, go-redis takes such a line for a length.
func (a *answers) readText(p []byte) {
	if a.depth > 0 || a.counts && a.kind == ':' {
		return
	}
	for _, c := range p {
		if c >= '0' && c <= '9' {
			a.digits++
		} else if c != '\r' && c != '\n' && c != '+' {
			a.text = true
		}
	}
	if a.digits > 5 && !a.text {
		a.refuse("a number of more than 5 digits")
	}
}

// readNumber reads the digits of a length. "-1" means no element; -2 stands for its sign.
func (a *answers) readNumber(p []byte) {
	for _, c := range p {
		switch {
		case c == '\r', c == '\n':
		case c == '-' && a.number == 0:
			a.number = -2
		case c == '1' && a.number == -2:
			a.number = -1
		case c < '0' || c > '9' || a.number < 0 || a.number > maxAnswer:
			a.refuse("a length that cannot be")
			return
		default:
			a.number = 10*a.number + int64(c-'0')
		}
	}
}

func (a *answers) lineEnded() {
	kind, n := a.kind, int(a.number)
	a.bytes += a.line
	a.kind, a.number, a.line, a.digits, a.text = 0, 0, 0, 0, false
	switch {
	case kind == '%' && n > 0:
		a.beginArray(2 * n)
	case (kind == '*' || kind == '~' || kind == '>') && n > 0:
		a.beginArray(n)
	case (kind == '$' || kind == '!' || kind == '=') && n >= 0:
		a.beginString(n)
	default:
		a.ended()
	}
	if a.bytes > maxAnswer {
		a.refuse("more than %d bytes", maxAnswer)
	}
}

// beginString begins a string of n bytes.
func (a *answers) beginString(n int) {
	if n > maxString {
		a.refuse("a string of %d bytes, more than %d", n, maxString)
		return
	}
	a.left = n + len("\r\n")
	a.bytes += a.left
}

// beginArray begins an array, or another type with elements.
func (a *answers) beginArray(n int) {
	a.all += n
	switch {
	case n > maxArray || a.all > maxElements:
		a.refuse("%d elements in an array, %d in all; at most %d and %d are read", n, a.all, maxArray, maxElements)
	case a.depth == maxDepth:
		a.refuse("arrays within arrays, more than %d", maxDepth)
	default:
		a.open[a.depth] = n
		a.depth++
	}
}

// ended ends an element, all arrays of which it is the last one, and the answer if that was
// the outermost one.
func (a *answers) ended() {
	for a.depth > 0 {
		if a.open[a.depth-1]--; a.open[a.depth-1] > 0 {
			return
		}
		a.depth--
	}
	a.all, a.bytes = 0, 0
}

func (a *answers) refuse(format string, args ...any) {
	a.err = answerError("an answer that Redis does not give: " + fmt.Sprintf(format, args...))
}

// answerError wraps no other error: go-redis would show that one instead.
type answerError string

func (e answerError) Error() string { return string(e) }
