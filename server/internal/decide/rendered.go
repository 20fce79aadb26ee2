package decide

import (
	"bytes"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/valyala/fasthttp"
)

// rendered is a response whose constant parts are bytes already, as rendered by fasthttp. Immutable.
type rendered struct {
	status []byte // status line
	fields []byte // the lines after Date; variable ones follow
	body   []byte
}

var blankLine, closeLine = []byte("\r\n"), []byte("Connection: close\r\n")

// render has fasthttp render a response.
func render(resp *fasthttp.Response) rendered {
	body := bytes.Clone(resp.Body())
	resp.Header.SetContentLength(len(body))
	head := bytes.TrimSuffix(resp.Header.AppendBytes(nil), blankLine)
	status, fields, _ := bytes.Cut(head, []byte("\r\nDate: "))
	_, fields, ok := bytes.Cut(fields, blankLine)
	if !ok {
		panic(fmt.Sprintf("BUG: decide: no Date after the status line: %q", head))
	}
	return rendered{append(status, blankLine...), fields, body}
}

// renderAnswers returns the responses to admitted requests, and to those that the deny list refuses.
func renderAnswers() (allowed, listed rendered) {
	var a, l fasthttp.Response
	a.Header.SetNoDefaultContentType(true)
	writeListed(&l)
	return render(&a), render(&l)
}

// renderDenial returns the response to a denial by a rule, without the fields that depend on the decision,
// which include Content-Length if the body does.
func renderDenial(a *denial.Answer) rendered {
	var resp fasthttp.Response
	resp.SetStatusCode(a.Status)
	resp.Header.SetContentType(a.ContentType)
	resp.SetBodyRaw(a.Body)
	r := render(&resp)
	if a.Body == nil {
		r.fields = bytes.TrimSuffix(r.fields, appendLength(nil, 0))
	}
	return r
}

// appendLength appends the line with the length of a body.
func appendLength(dst []byte, n int) []byte {
	dst = append(dst, "Content-Length: "...)
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, blankLine...)
}

// begin appends the head up to the variable fields.
func (r *rendered) begin(dst, date []byte) []byte {
	dst = append(dst, r.status...)
	dst = append(dst, date...)
	return append(dst, r.fields...)
}

// end appends what follows the variable fields.
func (r *rendered) end(dst []byte, last bool) []byte {
	if last {
		dst = append(dst, closeLine...)
	}
	dst = append(dst, blankLine...)
	return append(dst, r.body...)
}

// dates renders the Date header, once a second. Safe for concurrent use; the zero
// value is ready.
type dates struct{ current atomic.Pointer[dateLine] }

type dateLine struct {
	second int64 // Unix time
	line   []byte
}

// at returns the line of the header at a time.
func (d *dates) at(now time.Time) []byte {
	second := now.Unix()
	if c := d.current.Load(); c != nil && c.second == second {
		return c.line
	}
	c := &dateLine{second: second, line: fasthttp.AppendHTTPDate([]byte("Date: "), now)}
	c.line = append(c.line, blankLine...)
	d.current.Store(c)
	return c.line
}

// clock reads the time like time.Now, with one reading of the machine's clocks instead of two: the wall time
// of the last call of set, and the monotonic time since. That saves 0.5 % of a request. A step of the wall
// clock, or a suspend, shows with the next set, so Date may be wrong for a second; limits only use the
// monotonic part. Safe for concurrent use after the first set.
type clock struct{ anchor atomic.Pointer[time.Time] }

func (c *clock) set() {
	now := time.Now()
	c.anchor.Store(&now)
}

func (c *clock) now() time.Time {
	anchor := c.anchor.Load()
	return anchor.Add(time.Since(*anchor))
}
