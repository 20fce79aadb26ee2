package denial

import (
	"errors"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/field"
)

// maxPage bounds the body of a [Page], in bytes. Each denial sends it, so a larger one would make a flood
// cost the server more than the sender.
const maxPage = 16 << 10

// retryAfterMark is replaced in the body of a [Page] by the value of Retry-After.
const retryAfterMark = "{{retry_after}}"

const maxContentType = 200 // bytes

// Page is a body of denials that replaces the problem document. It is immutable and safe for concurrent use:
// all rules share one.
type Page struct {
	contentType string
	pieces      []piece
	text, marks int // bytes of the body without marks, and the number of marks
}

// NewPage reads a body, in which every "{{retry_after}}" is replaced for each denial. Two opening braces
// always start a mark, so that a misspelled one is found. The error joins a [field.Error] of ContentType and
// one of Body.
func NewPage(contentType, body string) (*Page, error) {
	p := &Page{contentType: contentType}
	return p, errors.Join(checkContentType(contentType), p.read(body))
}

func checkContentType(s string) error {
	bad := func(problem string) error {
		return &field.Error{Field: "ContentType", Problem: problem, Fix: "want a media type such as text/html; charset=utf-8"}
	}
	media, _, err := mime.ParseMediaType(s)
	switch {
	case s == "":
		return bad("is missing")
	case len(s) > maxContentType:
		return bad(fmt.Sprintf("has %d bytes, more than %d", len(s), maxContentType))
	case err != nil, !strings.Contains(media, "/"), strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }):
		return bad(fmt.Sprintf("%q is not a media type", s))
	}
	return nil
}

// read splits the body at its marks.
func (p *Page) read(body string) error {
	if len(body) > maxPage {
		return &field.Error{Field: "Body", Problem: fmt.Sprintf("has %d bytes", len(body)), Fix: fmt.Sprintf("want at most %d, as every denial sends them", maxPage)}
	}
	p.text = len(body)
	for rest := body; rest != ""; {
		at := strings.Index(rest, "{{")
		if at < 0 {
			p.pieces = append(p.pieces, piece{text: rest})
			break
		}
		after, ok := strings.CutPrefix(rest[at:], retryAfterMark)
		if !ok {
			return unknownMark(body, len(body)-len(rest)+at)
		}
		p.pieces = append(p.pieces, piece{rest[:at], retryWhole})
		p.text, p.marks = p.text-len(retryAfterMark), p.marks+1
		rest = after
	}
	return nil
}

// unknownMark reports the mark at an offset, by its line and column in characters.
func unknownMark(body string, at int) error {
	before, mark := body[:at], body[at:]
	mark, _, _ = strings.Cut(mark, "\n")
	if end := strings.Index(mark, "}}"); end >= 0 {
		mark = mark[:end+2]
	}
	if runes := []rune(mark); len(runes) > 40 {
		mark = string(runes[:40])
	}
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	return &field.Error{
		Field:   "Body",
		Problem: fmt.Sprintf("at %d:%d: %q is not a placeholder", strings.Count(before, "\n")+1, column, mark),
		Fix:     "write " + retryAfterMark + ", or put a space between literal braces",
	}
}

// fixed returns the body of a page without marks, else nil.
func (p *Page) fixed() []byte {
	switch {
	case len(p.pieces) == 0:
		return []byte{}
	case len(p.pieces) == 1 && p.pieces[0].value == nothing:
		return []byte(p.pieces[0].text)
	}
	return nil
}

// AppendBody appends the body of a denial, whether it varies or not.
func (a *Answer) AppendBody(dst []byte, d *fastlimit.Decision) []byte {
	if a.Body != nil {
		return append(dst, a.Body...)
	}
	return appendPieces(dst, a.page.pieces, d)
}

// BodyIn returns the body of a denial, in b if it varies. Do not change it.
func (a *Answer) BodyIn(b *Buffer, d *fastlimit.Decision) []byte {
	if a.Body != nil {
		return a.Body
	}
	b.bytes = a.AppendBody(b.empty(), d)
	return b.bytes
}

// BodyLength is the length of what [Answer.AppendBody] appends, in bytes.
func (a *Answer) BodyLength(d *fastlimit.Decision) int {
	if a.Body != nil {
		return len(a.Body)
	}
	var digits [20]byte
	return a.page.text + a.page.marks*len(appendPieces(digits[:0], retryAlone, d))
}

var retryAlone = []piece{{value: retryWhole}}
