package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxLine is the longest line that is parsed, in bytes; errLineTooBig names it too.
const maxLine = 64 << 10

// lines reads a log line by line. It decompresses gzip, also of several members.
type lines struct {
	r *bufio.Reader
	n int // lines read
}

// unsupported are compressed formats by their first bytes, with the program that
// unpacks them.
var unsupported = []struct{ magic, name, program string }{
	{"BZh", "bzip2", "bzcat"}, {"\xfd7zXZ\x00", "xz", "xzcat"}, {"\x28\xb5\x2f\xfd", "zstd", "zstdcat"},
}

// newLines returns the lines of a log; command is how to read it from a pipe. It
// detects compression by the first bytes and not by a file's name, since a
// log may come from a pipe.
func newLines(r io.Reader, command string) (*lines, error) {
	br := bufio.NewReaderSize(r, maxLine+2) // a line and its line end, CR LF at most
	head, err := peek(br)
	if err != nil {
		return nil, err
	}
	for _, p := range unsupported {
		if strings.HasPrefix(head, p.magic) {
			return nil, fmt.Errorf("is compressed with %s; unpack it: %s LOG | %s -", p.name, p.program, command)
		}
	}
	if strings.HasPrefix(head, "\x1f\x8b") {
		z, err := gzip.NewReader(br)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		// gzip reads on over the ends of members, as of logs that cat has joined.
		br = bufio.NewReaderSize(z, maxLine+2)
		if head, err = peek(br); err != nil {
			return nil, err
		}
	}
	if strings.HasPrefix(head, byteOrderMark) {
		_, _ = br.Discard(len(byteOrderMark)) // cannot fail: it is in the buffer
	}
	return &lines{r: br}, nil
}

// byteOrderMark is what Windows editors put in front of UTF-8.
const byteOrderMark = "\ufeff"

// peek returns the first bytes, enough for any magic number above.
func peek(br *bufio.Reader) (string, error) {
	b, err := br.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return string(b), nil
}

// next returns a line without its line end, valid until the next call. The error is
// [errLineTooBig], together with the start of the line, io.EOF at the end of the log, or
// a failure to read, such as [io.ErrUnexpectedEOF] of a gzip file that was cut off.
func (l *lines) next() ([]byte, error) {
	b, more, err := l.r.ReadLine()
	if errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	if err == nil {
		l.n++
		if !more && len(b) <= maxLine {
			return b, nil
		}
		b = bytes.Clone(b[:128]) // reading on overwrites it
		for more && err == nil {
			_, more, err = l.r.ReadLine()
		}
		if err == nil || errors.Is(err, io.EOF) {
			return b, errLineTooBig
		}
	}
	return nil, fmt.Errorf("after line %d: %w", l.n, err)
}

// source is a log that is being read, and the record of its next line.
type source struct {
	name   string
	lines  *lines
	parser parser
	next   record
	first  *Skipped // the first line that could not be parsed
	read   int      // lines that could be parsed
}

// skip reports a line that could not be parsed, and keeps the log's first one for
// the error in case there is no other.
func (s *source) skip(r *Reading, reason error, text []byte) {
	line := newSkipped(s.name, s.lines.n, reason, text)
	if s.first == nil {
		s.first = &line
	}
	r.skip(line)
}
