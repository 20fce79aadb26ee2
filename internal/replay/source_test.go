package replay

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func readAll(t *testing.T, r io.Reader) (got []string, tooBig int, err error) {
	t.Helper()
	src, err := newLines(r, "fastlimit replay")
	if err != nil {
		return nil, 0, err
	}
	for {
		b, err := src.next()
		switch {
		case errors.Is(err, io.EOF):
			if src.n != len(got)+tooBig {
				t.Errorf("%d lines counted, %d seen", src.n, len(got)+tooBig)
			}
			return got, tooBig, nil
		case errors.Is(err, errLineTooBig):
			tooBig++
		case err != nil:
			return got, tooBig, err
		default:
			got = append(got, string(b))
		}
	}
}

func zip(t *testing.T, members ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, m := range members {
		z := gzip.NewWriter(&b)
		if _, err := io.WriteString(z, m); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestLines(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("x", maxLine)
	for _, tt := range []struct {
		name, in string
		want     []string
		tooBig   int
	}{
		{"empty", "", nil, 0},
		{"one byte", "a", []string{"a"}, 0},
		{"no last line end", "a\nb", []string{"a", "b"}, 0},
		{"CRLF and blank lines", "a\r\n\r\n\nb\r\n", []string{"a", "", "", "b"}, 0},
		{"gzip of two members", string(zip(t, "a\nb", "c\nd\n")), []string{"a", "bc", "d"}, 0},
		{"longest line", longest + "\n" + longest, []string{longest, longest}, 0},
		{"one byte more", longest + "y\na\n" + longest + "y", []string{"a"}, 2},
		{"much too long", strings.Repeat(longest, 5) + "\na\n", []string{"a"}, 1},
		{"much too long at the end", "a\n" + strings.Repeat(longest, 5), []string{"a"}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, r := range []io.Reader{strings.NewReader(tt.in), iotest.HalfReader(strings.NewReader(tt.in))} {
				got, tooBig, err := readAll(t, r)
				if err != nil || tooBig != tt.tooBig || strings.Join(got, "|") != strings.Join(tt.want, "|") {
					t.Errorf("%d lines, %d too big, error %v; want %d and %d", len(got), tooBig, err, len(tt.want), tt.tooBig)
				}
			}
		})
	}
}

func TestLinesFail(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk on fire")
	whole := zip(t, strings.Repeat("a line\n", 1000))
	for _, tt := range []struct {
		name string
		r    io.Reader
		want error
	}{
		{"at once", iotest.ErrReader(broken), broken},
		{"later", io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), broken},
		{"gzip header only", bytes.NewReader(whole[:5]), io.ErrUnexpectedEOF},
		{"gzip cut off", bytes.NewReader(whole[:len(whole)-10]), io.ErrUnexpectedEOF},
	} {
		if _, _, err := readAll(t, tt.r); !errors.Is(err, tt.want) {
			t.Errorf("%s: error %v, want %v", tt.name, err, tt.want)
		}
	}
}
