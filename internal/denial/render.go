package denial

import (
	"strconv"
	"time"

	"github.com/fastlimit/fastlimit"
)

// value is a part of an answer that depends on the decision.
type value uint8

const (
	nothing     value = iota
	retryWhole        // whole seconds until the request would be admitted, at least 1
	retryMillis       // the same with three decimals
	left              // units that would be admitted now
	leftInteger       // the same as an Integer of a structured field
	clearWhole        // whole seconds until the bucket is empty
	clearMillis       // the same with three decimals
)

// piece is constant text, and the value that follows it.
type piece struct {
	text  string
	value value
}

// appendPieces renders pieces for a decision.
func appendPieces(dst []byte, pieces []piece, d *fastlimit.Decision) []byte {
	for i := range pieces {
		p := &pieces[i]
		dst = append(dst, p.text...)
		switch p.value {
		case nothing:
		case retryWhole:
			dst = strconv.AppendInt(dst, max(ceil(d.RetryAfter, time.Second), 1), 10)
		case retryMillis:
			dst = appendSeconds(dst, d.RetryAfter)
		case left:
			dst = strconv.AppendInt(dst, max(d.Remaining, 0), 10)
		case leftInteger:
			dst = strconv.AppendInt(dst, min(max(d.Remaining, 0), maxInteger), 10)
		case clearWhole:
			dst = strconv.AppendInt(dst, ceil(d.TimeToEmpty, time.Second), 10)
		case clearMillis:
			dst = appendSeconds(dst, d.TimeToEmpty)
		}
	}
	return dst
}

// fields are the header fields of one kind of answer, in two forms of the same
// content: for servers that keep fields apart, and for those that write lines.
type fields struct {
	each  []headerField
	lines []piece // all fields as they are on the wire; neighbouring text is one piece
}

type headerField struct {
	name   Name
	pieces []piece
}

func (f *fields) add(name Name, pieces ...piece) {
	f.each = append(f.each, headerField{name, pieces})
	f.write(piece{text: name.String + ": "})
	for _, p := range pieces {
		f.write(p)
	}
	f.write(piece{text: "\r\n"})
}

// write adds a piece to the lines, to the last one if that has no value yet.
func (f *fields) write(p piece) {
	if n := len(f.lines) - 1; n >= 0 && f.lines[n].value == nothing {
		f.lines[n].text += p.text
		f.lines[n].value = p.value
		return
	}
	f.lines = append(f.lines, p)
}

// of returns the fields for a decision.
func (a *Answer) of(d *fastlimit.Decision) *fields {
	switch {
	case !d.Allowed:
		return &a.denied
	case d.Remaining == fastlimit.RemainingUnknown:
		return &a.unknown
	}
	return &a.known
}

// AppendFields appends the lines of a decision's header fields, each with its line end: all but Content-Type
// for a denial, what is known of the client for an admission. It does not allocate if dst has room.
func (a *Answer) AppendFields(dst []byte, d *fastlimit.Decision) []byte {
	return appendPieces(dst, a.of(d).lines, d)
}

// Buffer is memory for the value of a field. The zero value is ready. Reuse it in place: it allocates only to
// grow. Not safe for concurrent use.
type Buffer struct {
	bytes []byte
	first [128]byte // bytes, until it needs more
}

func (b *Buffer) empty() []byte {
	if b.bytes == nil {
		return b.first[:0]
	}
	return b.bytes[:0]
}

// SetFields calls set for each header field that [Answer.AppendFields] has. The value is in b, and valid
// until set returns. SetFields does not allocate.
func (a *Answer) SetFields(b *Buffer, d *fastlimit.Decision, set func(name Name, value []byte)) {
	for i := range a.of(d).each {
		f := &a.of(d).each[i]
		b.bytes = appendPieces(b.empty(), f.pieces, d)
		set(f.name, b.bytes)
	}
}

// appendSeconds writes d in seconds with three decimals, rounded up.
func appendSeconds(b []byte, d time.Duration) []byte {
	ms := ceil(max(d, 0), time.Millisecond)
	b = strconv.AppendInt(b, ms/1000, 10)
	frac := ms % 1000
	return append(b, '.', byte('0'+frac/100), byte('0'+frac/10%10), byte('0'+frac%10))
}
