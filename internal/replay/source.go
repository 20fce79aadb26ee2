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

func newLines(r io.Reader) (*lines, error) {
	br := bufio.NewReaderSize(r, maxLine+2) // a line and its end
	magic, err := br.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("replay: %w", err)
	}
	if bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(br)
		if err != nil {
			return nil, fmt.Errorf("replay: gzip: %w", err)
		}
		br = bufio.NewReaderSize(z, maxLine+2)
	}
	return &lines{r: br}, nil
}

// next returns a line without its end, valid until the next call. The error is
// [ErrLineTooBig], and then the start of the line is returned, io.EOF at the
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
		return head, ErrLineTooBig
	case !errors.Is(err, io.EOF):
		return nil, l.wrap(err)
	}
	if len(b) > maxLine {
		return b[:128], ErrLineTooBig
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
