package screen

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for range 500 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("it does not come to pass")
}

func TestKeysOfATerminal(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string][]Key{
		"":                                {},
		"q":                               {'q'},
		"dä":                              {'d', 'ä'},
		"\x03\f":                          {3, 12},
		"\x1b[A\x1b[B\x1bOA\x1bOB":        {KeyUp, KeyDown, KeyUp, KeyDown},
		"\x1b[5~\x1b[6~\x1b[1~\x1b[4~":    {KeyPageUp, KeyPageDown, KeyHome, KeyEnd},
		"\x1b[H\x1bOF\x1b[7~\x1b[8~":      {KeyHome, KeyEnd, KeyHome, KeyEnd},
		"\x1b":                            {KeyEscape},
		"\x1b\x1b[A":                      {KeyEscape, KeyUp},
		"\x1bq":                           {KeyEscape, 'q'},
		"\x1b[1;5Aq":                      {'q'}, // with control: has no name
		"\x1b[<0;10;10Mq":                 {'q'}, // of a mouse
		"\x1b[200~":                       {},
		"\x1b[1;":                         {},
		"\xffq":                           {'q'},
		"\x00q":                           {'q'},
		strings.Repeat("\x1b[B", 300)[:9]: {KeyDown, KeyDown, KeyDown},
	} {
		got := []Key{}
		for k := range Keys(strings.NewReader(typed)) {
			got = append(got, k)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", typed, got, want)
		}
	}
	for range Keys(iotest.ErrReader(errors.New("gone"))) {
		t.Error("a key of nobody")
	}
	for range Keys(iotest.DataErrReader(io.LimitReader(strings.NewReader(""), 0))) {
		t.Error("a key of nobody")
	}
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte("\x1b[1;5A\xc3\xa4\x1b"))
	f.Fuzz(func(t *testing.T, in []byte) {
		for len(in) > 0 {
			_, size := decode(in)
			if size < 1 || size > len(in) {
				t.Fatalf("%q: took %d", in, size)
			}
			in = in[size:]
		}
	})
}
