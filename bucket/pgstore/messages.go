package pgstore

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Bounds of a server's messages. pgx allocates whatever the head of a message announces,
// and keeps all settings that it receives. The largest legitimate message has a row of a
// registry.
const (
	maxMessage  = 256 << 10 // bytes
	maxSetting  = 4 << 10
	maxSettings = 4096 // over a connection
)

// newFrontend is [pgproto3.NewFrontend] with bounds.
func newFrontend(r io.Reader, w io.Writer) *pgproto3.Frontend {
	return pgproto3.NewFrontend(&messages{Reader: r}, w)
}

// messages checks the messages of a server as they come. It has one reader at a time.
// https://www.postgresql.org/docs/17/protocol-message-formats.html
type messages struct {
	io.Reader
	head     [5]byte // kind and length
	have     int     // bytes of the head
	left     int     // of the body
	settings int     // so far
	err      error
}

// Read implements [io.Reader].
func (m *messages) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	for p = p[:n]; len(p) > 0 && m.err == nil; {
		if m.left > 0 {
			k := min(m.left, len(p))
			p, m.left = p[k:], m.left-k
			continue
		}
		k := copy(m.head[m.have:], p)
		p = p[k:]
		if m.have += k; m.have == len(m.head) {
			m.begin(m.head[0], binary.BigEndian.Uint32(m.head[1:]))
		}
	}
	if m.err != nil {
		return 0, m.err
	}
	return n, err
}

// begin begins a message. Its length includes itself and the body.
func (m *messages) begin(kind byte, length uint32) {
	m.have, m.left = 0, int(length)-4
	setting := kind == 'S'
	if setting {
		m.settings++
	}
	switch {
	case length < 4, length > maxMessage, setting && length > maxSetting:
		m.err = messageError(fmt.Sprintf("a message %q of %d bytes", kind, length))
	case m.settings > maxSettings:
		m.err = messageError(fmt.Sprintf("more than %d settings", maxSettings))
	}
}

// messageError is an error for a message that PostgreSQL does not send.
type messageError string

func (e messageError) Error() string { return "PostgreSQL does not send that: " + string(e) }
