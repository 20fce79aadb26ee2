// Package http1 reads the messages of HTTP/1.0 and HTTP/1.1 as an intermediary must: strictly, so that the
// receiver of what it forwards reads the same (RFC 9112, RFC 9110). It knows no connections and does no I/O:
// bytes in, slices that borrow from them out, and no allocation unless a message has trailers.
//
//	var r http1.Request
//	n, err := r.Parse(buf) // 0 and nil: read more, and call it again with all of it
//	var body http1.Body
//	body.Begin(r.Length)
//	for p := buf[n:]; !body.Done(); p = p[skip+size:] {
//		skip, size, err = body.Next(p)
//		// 0, 0 and nil: read more behind p, else forward p[skip:skip+size]
//	}
//
// [Request] and [Response] are heads. Their Fields have no folded line, no name that is not a token, and no
// control byte except tabs: [Lines] walks them without checking again. [Body] finds the payload after a head.
// Errors are an [*Error], whose kind is from a closed set.
//
// It refuses whatever leaves room for two readings instead of choosing one: lines that end in a bare LF,
// Content-Length with Transfer-Encoding or repeated, even if equal, codings other than one chunked, a
// Transfer-Encoding in HTTP/1.0. If the gate of package conn refuses a message, so does this package, at the
// same line and with the same kind of error (FuzzRequest); they share the rules below the level of a line. It
// is stricter than the gate, which leaves the request line, Host and control bytes to fasthttp.
//
// Parse is one pass over the head. A head that arrives in pieces is read from its
// start each time, so callers bound its length.
//
// Values are not safe for concurrent use. The functions are.
package http1

// Kind is what is wrong with a message. The set is closed.
type Kind uint8

// The kinds of [Error].
const (
	Malformed   Kind = iota // not HTTP/1
	Framing                 // its end is ambiguous: two readers may see different messages
	Version                 // HTTP, but neither 1.0 nor 1.1
	Host                    // no Host in HTTP/1.1, several, or one that is not a host
	Target                  // a request target that is invalid, or not for the method
	Expectation             // an Expect other than 100-continue
	TooLong                 // a part is longer than anybody needs
)

// String returns the name for logs and metrics.
func (k Kind) String() string {
	return [...]string{"malformed", "framing", "version", "host", "target", "expectation", "too_long"}[k]
}

// Error is an error in a message. Nothing that follows it can be trusted either: the connection it came from
// has to be closed.
type Error struct {
	Kind Kind
	text string
}

// Error implements error. The text is for the log, and contains nothing of the message.
func (e *Error) Error() string { return e.text }

// Ambiguous reports whether two readers may disagree on where the message ends.
func (e *Error) Ambiguous() bool { return e.Kind == Framing }

// All errors. The exported ones are also used by the gate.
var (
	ErrBareLF        = &Error{Framing, "a line ends without CR"}
	ErrBlankLines    = &Error{Malformed, "more than one empty line before a request"}
	ErrFolded        = &Error{Framing, "a folded field line"}
	ErrFieldName     = &Error{Malformed, "a field name that is not a token, or no colon after it"}
	ErrTwoLengths    = &Error{Framing, "more than one Content-Length"}
	ErrLength        = &Error{Malformed, "a Content-Length that is not a decimal number"}
	ErrCoding        = &Error{Framing, "a Transfer-Encoding other than one chunked"}
	ErrLengthCoding  = &Error{Framing, "Content-Length with Transfer-Encoding"}
	ErrConnection    = &Error{Malformed, "an overlong Connection"}
	ErrChunkSize     = &Error{Malformed, "a chunk size that is not a hexadecimal number"}
	ErrChunkLine     = &Error{Malformed, "a malformed chunk extension"}
	ErrChunkEnd      = &Error{Malformed, "no CRLF after a chunk"}
	ErrChunkOverhead = &Error{TooLong, "too many bytes of chunk extensions and trailers"}
	ErrTrailer       = &Error{Malformed, "a control byte in a trailer"}

	// ErrTarget is for callers that allow less than Parse.
	ErrTarget = errTarget

	errRequestLine = &Error{Malformed, "a malformed request line"}
	errStatusLine  = &Error{Malformed, "a malformed status line"}
	errVersion     = &Error{Version, "a version other than HTTP/1.0 and HTTP/1.1"}
	errTarget      = &Error{Target, "an invalid request target"}
	errControl     = &Error{Malformed, "a control byte in a field value"}
	errCoding10    = &Error{Framing, "a Transfer-Encoding in HTTP/1.0"}
	errNoHost      = &Error{Host, "no Host"}
	errTwoHosts    = &Error{Host, "more than one Host"}
	errHost        = &Error{Host, "a Host that is not a host"}
	errExpect      = &Error{Expectation, "an Expect other than 100-continue"}
)
