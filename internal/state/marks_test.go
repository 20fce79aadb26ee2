package state

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/fastlimit/fastlimit/internal/frames"
)

// What is written comes back, whatever is zero in it, in pieces that are bounded and short where
// little is marked.
func TestMarks(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, words := range []int{1, 2, marksPiece / wordBytes, marksPiece/wordBytes + 1, 3*marksPiece/wordBytes - 1} {
		for _, marked := range []int{0, 1, 10, words} {
			all := make([]byte, words*wordBytes)
			for range marked {
				all[rng.IntN(len(all))] = 1
			}
			var file bytes.Buffer
			to, err := frames.NewWriter(&file, Magic, Version)
			if err != nil {
				t.Fatal(err)
			}
			w := &marksWriter{To: to}
			for rest := all; len(rest) > 0; {
				n := min(len(rest), 1+rng.IntN(100_000))
				if _, err := w.Write(rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			if err := errors.Join(w.Flush(), to.End()); err != nil {
				t.Fatal(err)
			}
			if most := 200 + 12*marked; file.Len() > most && marked < words {
				t.Errorf("%d of %d words marked: %d bytes, want at most %d", marked, words, file.Len(), most)
			}
			from, err := frames.NewReader(bytes.NewReader(file.Bytes()), Magic, Version)
			if err != nil {
				t.Fatal(err)
			}
			r := &marksReader{Next: func() ([]byte, error) {
				_, body, err := from.Next()
				if errors.Is(err, io.EOF) {
					return nil, nil
				}
				return body, err
			}}
			got := make([]byte, len(all))
			if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, all) || r.More() || r.Err != nil {
				t.Errorf("%d of %d words marked: %v, %v, the same %v", marked, words, err, r.Err, bytes.Equal(got, all))
			}
			if _, err := r.Read(got); !errors.Is(err, io.ErrUnexpectedEOF) || r.Err != nil {
				t.Errorf("after the end: %v, %v", err, r.Err)
			}
		}
	}
}

// FuzzMarks unpacks anything to no more than a piece.
func FuzzMarks(f *testing.F) {
	f.Add(packZeros(nil, make([]byte, 800)))
	f.Add(packZeros(nil, bytes.Repeat([]byte{0, 0, 0, 0, 0, 0, 0, 1}, 9)))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1})
	f.Fuzz(func(t *testing.T, packed []byte) {
		words, err := unpackZeros(nil, packed)
		if len(words) > marksPiece || len(words)%wordBytes != 0 {
			t.Fatalf("%d bytes", len(words))
		}
		if err != nil {
			return
		}
		if again, err := unpackZeros(nil, packZeros(nil, words)); err != nil || !bytes.Equal(again, words) {
			t.Fatalf("%v, the same %v", err, bytes.Equal(again, words))
		}
	})
}
