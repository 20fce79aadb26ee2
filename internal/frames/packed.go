package frames

import (
	"encoding/binary"
	"fmt"
)

// Unpacker reads numbers off the body of a frame. After the first missing one all others are 0, and Err
// reports it. The zero value has nothing to read.
type Unpacker struct {
	rest []byte
	bad  bool
}

// Unpack reads b.
func Unpack(b []byte) *Unpacker { return &Unpacker{rest: b} }

// More reports whether there is more to read and nothing was wrong so far.
func (u *Unpacker) More() bool { return len(u.rest) > 0 && !u.bad }

// Uvarint reads a number of binary.AppendUvarint.
func (u *Unpacker) Uvarint() uint64 {
	v, n := binary.Uvarint(u.rest)
	if n <= 0 {
		u.Fail()
		return 0
	}
	u.rest = u.rest[n:]
	return v
}

// Varint reads a number of binary.AppendVarint.
func (u *Unpacker) Varint() int64 {
	v, n := binary.Varint(u.rest)
	if n <= 0 {
		u.Fail()
		return 0
	}
	u.rest = u.rest[n:]
	return v
}

// Uint64 reads eight bytes, little endian.
func (u *Unpacker) Uint64() uint64 {
	if b := u.Bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Byte reads a byte.
func (u *Unpacker) Byte() byte {
	if b := u.Bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// Bytes returns n bytes of the body, or nil if there are fewer.
func (u *Unpacker) Bytes(n uint64) []byte {
	if u.bad || uint64(len(u.rest)) < n {
		u.Fail()
		return nil
	}
	b := u.rest[:n:n]
	u.rest = u.rest[n:]
	return b
}

// Rest returns everything that is left.
func (u *Unpacker) Rest() []byte { return u.rest }

// Fail marks what was read as meaningless.
func (u *Unpacker) Fail() { u.bad, u.rest = true, nil }

// Err is nil if everything that was read was there and meaningful. what names it in the error.
func (u *Unpacker) Err(what string) error {
	if u.bad {
		return fmt.Errorf("%w: %s", ErrDamaged, what)
	}
	return nil
}
