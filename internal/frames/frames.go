// Package frames is a stream of frames with checksums, for files that may be cut short or damaged: after each
// frame the reader knows that everything before it is as it was written.
//
//	file  = magic (8 bytes) version (4 bytes) frame…
//	frame = kind (1 byte) length (4 bytes) body checksum (8 bytes)
//
// Numbers are little endian. A checksum is the xxhash64 of everything since the beginning of the file, so
// that frames cannot be missing, doubled or from another file. A frame of kind 0 is the last one: a file that
// was cut at the end of a frame lacks it. Checksums detect damage, not forgery.
package frames

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"
)

const (
	// end is the kind of the last frame, which is empty.
	end = 0
	// maxBody is the longest body of a frame in bytes.
	maxBody = 16 << 20

	magicBytes = 8
	headBytes  = 5
	sumBytes   = 8
)

// Errors of a [Reader] about the file, for errors.Is.
var (
	// ErrForeign means that it is not such a file at all.
	ErrForeign = errors.New("not a state file")
	// ErrVersion means that it has another version.
	ErrVersion = errors.New("has another version")
	// ErrTorn means that the file ends too early.
	ErrTorn = errors.New("torn: it ends too early")
	// ErrDamaged means that a checksum is wrong, or that the content makes no sense despite it.
	ErrDamaged = errors.New("damaged")
	// ErrTooLarge means that the content needs more than the memory for it.
	ErrTooLarge = errors.New("larger than the memory for it")
)

// Writer writes frames. It is not safe for concurrent use.
type Writer struct {
	w   io.Writer
	sum *xxhash.Digest
	buf []byte
}

// NewWriter begins a file. magic is 8 bytes.
func NewWriter(w io.Writer, magic string, version uint32) (*Writer, error) {
	if len(magic) != magicBytes {
		panic("BUG: frames: a magic of " + magic)
	}
	f := &Writer{w: w, sum: xxhash.New()}
	return f, f.write(binary.LittleEndian.AppendUint32([]byte(magic), version))
}

// Frame writes a frame, with at most three calls of the underlying writer.
func (f *Writer) Frame(kind byte, body []byte) error {
	if len(body) > maxBody {
		return fmt.Errorf("frames: a body of %d bytes: want at most %d", len(body), maxBody)
	}
	f.buf = binary.LittleEndian.AppendUint32(append(f.buf[:0], kind), uint32(len(body)))
	if err := f.write(f.buf); err != nil {
		return err
	}
	if err := f.write(body); err != nil {
		return err
	}
	f.buf = binary.LittleEndian.AppendUint64(f.buf[:0], f.sum.Sum64())
	return f.write(f.buf)
}

// End writes the last frame.
func (f *Writer) End() error { return f.Frame(end, nil) }

func (f *Writer) write(b []byte) error {
	_, _ = f.sum.Write(b) // never fails
	_, err := f.w.Write(b)
	return err
}

// Reader reads frames. It is not safe for concurrent use.
type Reader struct {
	r    io.Reader
	sum  *xxhash.Digest
	body bytes.Buffer
	head [magicBytes + 4]byte
}

// NewReader checks the beginning of a file.
func NewReader(r io.Reader, magic string, version uint32) (*Reader, error) {
	f := &Reader{r: r, sum: xxhash.New()}
	head := f.head[:magicBytes+4]
	if n, err := io.ReadFull(r, head); err != nil && (n < magicBytes || string(head[:magicBytes]) == magic) {
		return nil, torn(err)
	}
	if string(head[:magicBytes]) != magic {
		return nil, ErrForeign
	}
	if is := binary.LittleEndian.Uint32(head[magicBytes:]); is != version {
		return nil, fmt.Errorf("%w: %d, and this program reads %d", ErrVersion, is, version)
	}
	_, _ = f.sum.Write(head) // never fails
	return f, nil
}

// Next returns the next frame whose checksum is right. The body is valid until the next call. It allocates at
// most twice what the file has, whatever size a frame claims. After the last frame the error is io.EOF.
func (f *Reader) Next() (kind byte, body []byte, err error) {
	head := f.head[:headBytes]
	if _, err := io.ReadFull(f.r, head); err != nil {
		return 0, nil, torn(err)
	}
	_, _ = f.sum.Write(head) // never fails
	n := binary.LittleEndian.Uint32(head[1:])
	if n > maxBody {
		return 0, nil, fmt.Errorf("%w: a frame of %d bytes", ErrDamaged, n)
	}
	f.body.Reset()
	if _, err := io.CopyN(&f.body, f.r, int64(n)); err != nil {
		return 0, nil, torn(err)
	}
	_, _ = f.sum.Write(f.body.Bytes()) // never fails
	want := f.sum.Sum64()
	kind = head[0]
	sum := f.head[:sumBytes]
	if _, err := io.ReadFull(f.r, sum); err != nil {
		return 0, nil, torn(err)
	}
	if binary.LittleEndian.Uint64(sum) != want {
		return 0, nil, fmt.Errorf("%w: a checksum is wrong", ErrDamaged)
	}
	_, _ = f.sum.Write(sum) // never fails
	if kind == end {
		return end, nil, io.EOF
	}
	return kind, f.body.Bytes(), nil
}

// torn converts a read error: an early end means torn, wherever it is.
func torn(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrTorn
	}
	return err
}
