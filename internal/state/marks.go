package state

import (
	"encoding/binary"
	"io"

	"github.com/fastlimit/fastlimit/internal/frames"
)

// The library writes the whole filter, however few bits are marked. So runs of zero words are only counted:
//
//	body = (words of zeros, words that follow, those words)…
//
// for marksPiece bytes at a time, or what is left at the end.

const (
	marksPiece = 64 << 10
	wordBytes  = 8
)

// marksWriter writes the library's output as frames of kind kindMarks, in whole words and small pieces. Flush
// it at the end.
type marksWriter struct {
	To *frames.Writer

	buf    []byte
	packed []byte
}

// Write implements [io.Writer]. The error is that of a frame.
func (w *marksWriter) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n := min(len(rest), marksPiece-len(w.buf))
		w.buf, rest = append(w.buf, rest[:n]...), rest[n:]
		if len(w.buf) == marksPiece {
			if err := w.Flush(); err != nil {
				return 0, err
			}
		}
	}
	return len(b), nil
}

// Flush writes what is left.
func (w *marksWriter) Flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	w.packed = packZeros(w.packed[:0], w.buf)
	w.buf = w.buf[:0]
	return w.To.Frame(kindMarks, w.packed)
}

// packZeros appends whole words, with zero words only counted.
func packZeros(dst, words []byte) []byte {
	zero := func(b []byte) bool { return binary.LittleEndian.Uint64(b) == 0 }
	for len(words) > 0 {
		n := 0
		for n < len(words) && zero(words[n:]) {
			n += wordBytes
		}
		dst = binary.AppendUvarint(dst, uint64(n/wordBytes))
		words, n = words[n:], 0
		for n < len(words) && !zero(words[n:]) {
			n += wordBytes
		}
		dst = binary.AppendUvarint(dst, uint64(n/wordBytes))
		dst, words = append(dst, words[:n]...), words[n:]
	}
	return dst
}

// unpackZeros reverses packZeros, up to marksPiece bytes.
func unpackZeros(dst, packed []byte) ([]byte, error) {
	u := frames.Unpack(packed)
	for u.More() {
		zeros := u.Uvarint()
		if zeros > marksPiece/wordBytes || len(dst)+int(zeros)*wordBytes > marksPiece {
			u.Fail()
			break
		}
		dst = append(dst, make([]byte, zeros*wordBytes)...)
		n := u.Uvarint()
		if n > marksPiece/wordBytes || len(dst)+int(n)*wordBytes > marksPiece {
			u.Fail()
			break
		}
		dst = append(dst, u.Bytes(n*wordBytes)...)
	}
	return dst, u.Err("a filter")
}

// marksReader reads those frames as one stream, for the library.
type marksReader struct {
	Next func() (body []byte, err error) // the next frame, or nothing if it is of another kind
	Err  error                           // why a Read failed, other than at the end

	buf, left []byte
}

// More reports whether some of the last frame has not been read.
func (r *marksReader) More() bool { return len(r.left) > 0 }

// Read implements [io.Reader].
func (r *marksReader) Read(b []byte) (int, error) {
	for len(r.left) == 0 {
		var body []byte
		if body, r.Err = r.Next(); r.Err != nil {
			return 0, r.Err
		}
		if body == nil {
			return 0, io.ErrUnexpectedEOF
		}
		if r.buf, r.Err = unpackZeros(r.buf[:0], body); r.Err != nil {
			return 0, r.Err
		}
		r.left = r.buf
	}
	n := copy(b, r.left)
	r.left = r.left[n:]
	return n, nil
}
