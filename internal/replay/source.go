package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

const maxLine = 64 << 10

// lines reads a log line by line, unpacking gzip (of any number of members).
type lines struct {
	r *bufio.Reader
	n int // lines read
}

// packed are the first bytes of what is compressed and not unpacked here, and
// the program that does.
var packed = []struct{ magic, name, program string }{
	{"BZh", "bzip2", "bzcat"}, {"\xfd7zXZ\x00", "xz", "xzcat"}, {"\x28\xb5\x2f\xfd", "zstd", "zstdcat"},
}

func newLines(r io.Reader) (*lines, error) {
	br := bufio.NewReaderSize(r, maxLine+2) // a line and its end
	magic, err := peek(br, 2)
	if err != nil {
		return nil, err
	}
	if string(magic) == "\x1f\x8b" {
		z, err := gzip.NewReader(br)
		if err != nil {
			return nil, fmt.Errorf("replay: gzip: %w", err)
		}
		br = bufio.NewReaderSize(z, maxLine+2)
	} else {
		for _, p := range packed {
			if magic, err = peek(br, len(p.magic)); err != nil {
				return nil, err
			}
			if string(magic) == p.magic {
				return nil, fmt.Errorf("replay: is compressed with %s; unpack it: %s LOG | fastlimit replay -", p.name, p.program)
			}
		}
	}
	mark, err := peek(br, len(byteOrderMark))
	if err != nil {
		return nil, err
	}
	if string(mark) == byteOrderMark {
		_, _ = br.Discard(len(byteOrderMark)) // it is in the buffer
	}
	return &lines{r: br}, nil
}

// byteOrderMark is what editors of Windows put in front of UTF-8.
const byteOrderMark = "\ufeff"

// peek returns up to n bytes, less at the end.
func peek(br *bufio.Reader, n int) ([]byte, error) {
	b, err := br.Peek(n)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("replay: %w", err)
	}
	return b, nil
}

// next returns a line without its end, valid until the next call. The error is
// [errLineTooBig], and then the start of the line is returned, io.EOF at the
// end, or a failure to read.
func (l *lines) next() ([]byte, error) {
	b, err := l.r.ReadSlice('\n')
	if len(b) == 0 && err != nil {
		return nil, l.wrap(err)
	}
	l.n++
	switch {
	case err == nil:
		b = bytes.TrimSuffix(b[:len(b)-1], []byte("\r"))
	case errors.Is(err, bufio.ErrBufferFull):
		head := bytes.Clone(b[:128])
		if err := l.discard(); err != nil {
			return nil, err
		}
		return head, errLineTooBig
	case !errors.Is(err, io.EOF):
		return nil, l.wrap(err)
	}
	if len(b) > maxLine {
		return b[:128], errLineTooBig
	}
	return b, nil
}

// discard skips the rest of a line.
func (l *lines) discard() error {
	for {
		_, err := l.r.ReadSlice('\n')
		switch {
		case err == nil, errors.Is(err, io.EOF):
			return nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return l.wrap(err)
		}
	}
}

func (l *lines) wrap(err error) error {
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return fmt.Errorf("replay: after line %d: %w", l.n, err)
}
