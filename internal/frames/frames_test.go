package frames

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"testing"
)

const testMagic = "framests"

// written is a file of these bodies, of kinds 1, 2 and so on.
func written(t testing.TB, bodies ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, testMagic, 7)
	for i, b := range bodies {
		if err == nil {
			err = w.Frame(byte(i+1), []byte(b))
		}
	}
	if err == nil {
		err = w.End()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// read returns the bodies of a file, up to its error.
func read(file []byte) (bodies []string, err error) {
	r, err := NewReader(bytes.NewReader(file), testMagic, 7)
	for err == nil {
		var kind byte
		var body []byte
		if kind, body, err = r.Next(); err == nil {
			if int(kind) != len(bodies)+1 {
				return bodies, fmt.Errorf("frame %d is of kind %d", len(bodies), kind)
			}
			bodies = append(bodies, string(body))
		}
	}
	return bodies, err
}

func TestFrames(t *testing.T) {
	t.Parallel()
	bodies := []string{"one", "", string(bytes.Repeat([]byte{9}, 1<<17))}
	file := written(t, bodies...)
	if got, err := read(file); !errors.Is(err, io.EOF) || fmt.Sprint(got) != fmt.Sprint(bodies) {
		t.Fatalf("%d bodies, %v", len(got), err)
	}
	for n := range 200 {
		if _, err := read(file[:n]); !errors.Is(err, ErrTorn) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	short := written(t, "one", "two")
	for n := range len(short) {
		for bit := range 8 {
			bad := bytes.Clone(short)
			bad[n] ^= 1 << bit
			if _, err := read(bad); errors.Is(err, io.EOF) {
				t.Errorf("bit %d of byte %d is wrong, and nobody notices", bit, n)
			}
		}
	}
	// Frames that are right by themselves are not, elsewhere.
	frame := 5 + 3 + 8
	twice := append(bytes.Clone(short[:12+frame]), short[12:]...)
	without := append(bytes.Clone(short[:12]), short[12+frame:]...)
	for what, file := range map[string][]byte{"twice": twice, "missing": without} {
		if _, err := read(file); !errors.Is(err, ErrDamaged) {
			t.Errorf("a frame that is there %s: %v", what, err)
		}
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	file := written(t)
	binary.LittleEndian.PutUint32(file[8:], 8)
	if _, err := read(file); !errors.Is(err, ErrVersion) {
		t.Error(err)
	}
	if _, err := read([]byte("something else")); !errors.Is(err, ErrForeign) {
		t.Error(err)
	}
	if _, err := read([]byte("som")); !errors.Is(err, ErrTorn) {
		t.Error(err)
	}
}

// TestClaims: memory is taken for what there is, not for what a frame claims.
func TestClaims(t *testing.T) {
	t.Parallel()
	file := written(t)[:12]
	file = append(append(file, 1), 0, 0, 0xff, 0) // nearly 16 MiB
	allocs := testing.Benchmark(func(b *testing.B) {
		for range b.N {
			if _, err := read(file); !errors.Is(err, ErrTorn) {
				b.Fatal(err)
			}
		}
	}).AllocedBytesPerOp()
	if allocs > 1<<16 {
		t.Errorf("%d bytes for a file of %d", allocs, len(file))
	}
	binary.LittleEndian.PutUint32(file[13:], maxBody+1)
	if _, err := read(file); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
}

func TestUnpacker(t *testing.T) {
	t.Parallel()
	b := binary.AppendVarint(binary.AppendUvarint([]byte{5}, 300), -7)
	b = binary.LittleEndian.AppendUint64(b, 9)
	u := Unpack(append(b, "rest"...))
	if u.Byte() != 5 || u.Uvarint() != 300 || u.Varint() != -7 || u.Uint64() != 9 || string(u.Bytes(2)) != "re" || string(u.Rest()) != "st" || u.Err("x") != nil {
		t.Error("not what was written")
	}
	if u.Uint64() != 0 || u.Byte() != 0 || u.Uvarint() != 0 || u.More() || !errors.Is(u.Err("x"), ErrDamaged) {
		t.Error("read more than there is")
	}
}
