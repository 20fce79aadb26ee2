package http1

import (
	"bytes"

	"github.com/fastlimit/fastlimit/server/internal/text"
)

const (
	// MaxLine is the length of the longest line whose content matters, without its LF: Content-Length,
	// Transfer-Encoding, Connection, sizes of chunks, trailers. Field names are shorter.
	MaxLine = 256

	maxLengthDigits = 18 // of an int64
)

// Lines walks field lines that were checked: those of a head or a trailer section.
type Lines struct {
	Rest []byte // what is left
}

// Next returns the next field: its name, its value without surrounding blanks, and the line with its CRLF. ok
// is false after the last one.
func (l *Lines) Next() (name, value, line []byte, ok bool) {
	end := bytes.IndexByte(l.Rest, '\n') + 1
	colon := bytes.IndexByte(l.Rest[:end], ':')
	if colon < 0 {
		return nil, nil, nil, false
	}
	line, l.Rest = l.Rest[:end:end], l.Rest[end:]
	return line[:colon], text.TrimBlanks(line[colon+1 : end-len("\r\n")]), line, true
}

// NameLength returns the length of the token at the start of the line, or 0 unless
// a colon follows it within MaxLine bytes.
func NameLength(line []byte) int {
	for i, c := range line[:min(len(line), MaxLine)] {
		if !Token[c] {
			if c != ':' {
				return 0
			}
			return i
		}
	}
	return 0
}

// ParseLength parses the value of a Content-Length, which may have blanks around it.
func ParseLength(value []byte) (n int64, ok bool) {
	value = text.TrimBlanks(value)
	if len(value) == 0 || len(value) > maxLengthDigits {
		return 0, false
	}
	for _, c := range value {
		if c < '0' || '9' < c {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}

// notes collect the field lines of a head. Only fields that define where the message ends are refused at
// their line; the rest is judged at the end of the head.
type notes struct {
	minor int // version, set in advance

	host     []byte
	hosts    uint8 // number of Host fields; 2 means 2 or more
	expect   bool  // there is an Expect
	odd      bool  // and one that is not 100-continue
	forward  bool  // a forwarding header
	date     bool
	upgrade  bool // an Upgrade
	switches bool // a Connection field names it
	close    bool // a Connection field says close
	keep     bool // or keep-alive
	chunked  bool
	sized    bool  // there is a Content-Length
	length   int64 // its value
}

// read parses the field lines from b[at:] on and the empty line after them. It returns where they end, or 0
// if more bytes are needed.
func (f *notes) read(b []byte, at int) (end int, e *Error) {
	for {
		line := b[at:]
		name := 0
		for name < len(line) && Token[line[name]] {
			name++
		}
		switch {
		case name == len(line), name == 0 && len(line) == 1 && line[0] == '\r':
			return 0, nil
		case name == 0 && len(line) > 1 && IsCRLF(line):
			return at + len("\r\n"), nil
		case name == 0 || name >= MaxLine || line[name] != ':':
			return 0, f.fault(line)
		}
		end = textEnd(line, name+1)
		if end+1 >= len(line) && (end == len(line) || line[end] == '\r') {
			return 0, nil
		}
		if line[end] != '\r' || line[end+1] != '\n' {
			return 0, f.fault(line)
		}
		if e = f.note(line[:name], line[name+1:end], end >= MaxLine); e != nil {
			return 0, e
		}
		at += end + len("\r\n")
	}
}

// fault says what is wrong with the line at the start of b once all of it is there, nil before. It checks in
// the order of the gate.
func (f *notes) fault(b []byte) *Error {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		return nil
	}
	if end == 0 || b[end-1] != '\r' {
		return ErrBareLF
	}
	line := b[:end-1]
	if e := checkName(line); e != nil {
		return e
	}
	n := NameLength(line)
	if e := f.note(line[:n], line[n+1:], end > MaxLine); e != nil {
		return e
	}
	return errControl
}

// checkName checks the part before the colon of a field line.
func checkName(line []byte) *Error {
	switch {
	case len(line) > 0 && (line[0] == ' ' || line[0] == '\t'):
		return ErrFolded
	case NameLength(line) == 0:
		return ErrFieldName
	}
	return nil
}

// note records what matters about a field. overlong: its line is longer than MaxLine. Most fields have
// another length or first letter than those that matter.
func (f *notes) note(name, value []byte, overlong bool) *Error {
	first := name[0] | 0x20
	switch len(name) {
	case len("host"): // and date
		if first == 'h' && text.IsName(name, "host") {
			f.host, f.hosts = text.TrimBlanks(value), min(f.hosts+1, 2)
		} else if first == 'd' && text.IsName(name, "date") {
			f.date = true
		}
	case len("expect"):
		if first == 'e' && text.IsName(name, "expect") {
			f.expect, f.odd = true, f.odd || !text.IsName(text.TrimBlanks(value), "100-continue")
		}
	case len("upgrade"):
		if first == 'u' && text.IsName(name, "upgrade") {
			f.upgrade = f.upgrade || len(text.TrimBlanks(value)) > 0
		}
	case len("forwarded"), len("x-forwarded-for"): // and x-real-ip
		if first == 'x' || first == 'f' {
			f.forward = f.forward || IsForwarding(name)
		}
	case len("connection"):
		if first == 'c' && text.IsName(name, "connection") {
			return f.connection(value, overlong)
		}
	case len("content-length"):
		if first == 'c' && text.IsName(name, "content-length") {
			return f.contentLength(value, overlong)
		}
	case len("transfer-encoding"):
		if first == 't' && text.IsName(name, "transfer-encoding") {
			if f.chunked || overlong || !text.IsName(text.TrimBlanks(value), "chunked") {
				return ErrCoding
			}
			f.chunked = true
		}
	}
	return nil
}

func (f *notes) connection(value []byte, overlong bool) *Error {
	if overlong {
		return ErrConnection
	}
	f.close = f.close || HasOption(value, "close")
	if f.minor == 0 {
		f.keep = f.keep || HasOption(value, "keep-alive")
	} else {
		f.switches = f.switches || HasOption(value, "upgrade")
	}
	return nil
}

func (f *notes) contentLength(value []byte, overlong bool) *Error {
	if f.sized {
		return ErrTwoLengths
	}
	var ok bool
	if f.length, ok = ParseLength(value); !ok || overlong {
		return ErrLength
	}
	f.sized = true
	return nil
}

// framing checks the fields that define where the message ends, at the end of the head.
func (f *notes) framing() *Error {
	switch {
	case f.chunked && f.sized:
		return ErrLengthCoding
	case f.chunked && f.minor == 0:
		return errCoding10
	}
	return nil
}

// last reports whether the connection ends with the message.
func (f *notes) last() bool { return f.close || f.minor == 0 && !f.keep }
