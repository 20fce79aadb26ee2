package http1

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// collect reads a body that arrives in pieces, as a connection would: it keeps what
// Next asks it to keep. It returns the payload, what is behind the body, and a word
// on how it went.
func collect(t *testing.T, length int64, pieces ...string) (payload, rest, how string) {
	t.Helper()
	b := Body{trailers: []byte("earlier: x\r\n"), overhead: 1000, state: bodyBroken}
	b.Begin(length)
	var held []byte
	for i, piece := range pieces {
		held = append(held, piece...)
		for !b.Done() {
			skip, n, err := b.Next(held)
			if err != nil {
				if _, _, again := b.Next(nil); !errors.Is(again, err) {
					t.Errorf("%q, then %v", err, again)
				}
				return payload, "", outcome(err)
			}
			payload += string(held[skip : skip+n])
			if held = held[skip+n:]; skip+n == 0 {
				break
			}
		}
		if b.Done() {
			return payload, string(held) + strings.Join(pieces[i+1:], ""), "done " + string(b.Trailers())
		}
		if len(held) > MaxLine {
			t.Fatalf("%d bytes have to be kept", len(held))
		}
	}
	if b.Done() { // nothing has arrived, and nothing has to
		return payload, "", "done "
	}
	return payload, string(held), "more"
}

func TestBody(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 10_000)
	for _, c := range []struct {
		length             int64
		stream             string
		payload, rest, how string
	}{
		{0, "abc", "", "abc", "done "},
		{3, "abcdef", "abc", "def", "done "},
		{3, "ab", "ab", "", "more"},
		{UntilClose, long, long, "", "more"},
		{Chunked, "0\r\n\r\nabc", "", "abc", "done "},
		{Chunked, "000\r\n\r\n\r\n", "", "\r\n", "done "},
		{Chunked, "3\r\nabc\r\n0\r\n\r\nGET", "abc", "GET", "done "},
		{Chunked, "3\r\nabc\r\n2\r\nde\r\n00\r\n\r\n", "abcde", "", "done "},
		{Chunked, "0000000000000a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789", "", "done "},
		{Chunked, "2\r\n\r\n\r\n1\r\n\n\r\n0\r\n\r\n", "\r\n\n", "", "done "},
		{Chunked, "1;a\r\nx\r\n1;a=b;c=\"d e\xe9\t\"\r\ny\r\n0;x\r\n\r\n", "xy", "", "done "},
		{Chunked, "1;" + strings.Repeat("a", 253) + "\r\nx\r\n0\r\n\r\n", "x", "", "done "},
		{Chunked, "2710\r\n" + long + "\r\n0\r\n\r\n", long, "", "done "},
		{Chunked, "0\r\nX: a\r\ny:\r\n\r\n", "", "", "done X: a\r\ny:\r\n"},
		{Chunked, "0\r\nContent-Length: 5\r\nX: \xe9\r\nHOST: a\r\n\r\n", "", "", "done X: \xe9\r\n"},
		{Chunked, "0\r\nX:" + strings.Repeat(" ", 253) + "\r\n\r\n", "", "", "done X:" + strings.Repeat(" ", 253) + "\r\n"},
		{Chunked, "0\r\n" + strings.Repeat("X: aaa\r\n", 256) + "\r\n", "", "", "done " + strings.Repeat("X: aaa\r\n", 256)},
		{Chunked, "3\r\nab", "ab", "", "more"},
		{Chunked, "", "", "", "more"},
		{Chunked, "3", "", "3", "more"},
		{Chunked, "3\r\nabc\r", "abc", "\r", "more"},
		{Chunked, "0\r\nX: a\r\n", "", "", "more"},
		{Chunked, "\r\n", "", "", "malformed: " + ErrChunkSize.text},
		{Chunked, "1\r\nabc", "a", "", "malformed: " + ErrChunkEnd.text},
		{Chunked, "1\r\na\rb", "a", "", "malformed: " + ErrChunkEnd.text},
		{Chunked, "1\r\na\n", "a", "", "malformed: " + ErrChunkEnd.text},
		{Chunked, "1\n", "", "", "framing: " + ErrBareLF.text},
		{Chunked, "\n", "", "", "framing: " + ErrBareLF.text},
		{Chunked, "1\r\r\n", "", "", "malformed: " + ErrChunkSize.text},
		{Chunked, " 1\r\n", "", "", "malformed: " + ErrChunkSize.text},
		{Chunked, "1 ;a\r\n", "", "", "malformed: " + ErrChunkSize.text},
		{Chunked, "-1\r\n", "", "", "malformed: " + ErrChunkSize.text},
		{Chunked, "0x1\r\n", "", "", "malformed: " + ErrChunkSize.text},
		{Chunked, "0000000000000001\r\n", "", "", "malformed: " + ErrChunkSize.text},
		{Chunked, "1;\x00\r\n", "", "", "malformed: " + ErrChunkLine.text},
		{Chunked, "1;a\rb\r\n", "", "", "malformed: " + ErrChunkLine.text},
		{Chunked, "1;" + strings.Repeat("a", 254) + "\r\n", "", "", "malformed: " + ErrChunkLine.text},
		{Chunked, "1;" + strings.Repeat("a", 255), "", "", "malformed: " + ErrChunkLine.text},
		{Chunked, strings.Repeat("1;"+strings.Repeat("a", 205)+"\r\nx\r\n", 10), strings.Repeat("x", 9), "", "too_long: " + ErrChunkOverhead.text},
		{Chunked, strings.Repeat("1;"+strings.Repeat("a", 127)+"\r\nx\r\n", 16) + "0\r\n\r\n", strings.Repeat("x", 16), "", "done "},
		{Chunked, strings.Repeat("1;"+strings.Repeat("a", 127)+"\r\nx\r\n", 16) + "0;\r\n", strings.Repeat("x", 16), "", "too_long: " + ErrChunkOverhead.text},
		{Chunked, "0\r\nX : a\r\n", "", "", "malformed: " + ErrFieldName.text},
		{Chunked, "0\r\nX\r\n", "", "", "malformed: " + ErrFieldName.text},
		{Chunked, "0\r\n a\r\n", "", "", "framing: " + ErrFolded.text},
		{Chunked, "0\r\nX: a\n", "", "", "framing: " + ErrBareLF.text},
		{Chunked, "0\r\n\n", "", "", "framing: " + ErrBareLF.text},
		{Chunked, "0\r\nX: a\x00\r\n", "", "", "malformed: " + ErrTrailer.text},
		{Chunked, "0\r\nX: a\rb\r\n", "", "", "malformed: " + ErrTrailer.text},
		{Chunked, "0\r\nX:" + strings.Repeat(" ", 255), "", "", "too_long: " + ErrChunkOverhead.text},
		{Chunked, "0;a\r\n" + strings.Repeat("X: aaa\r\n", 256) + "\r\n", "", "", "too_long: " + ErrChunkOverhead.text},
	} {
		check := func(name string, pieces ...string) {
			payload, rest, how := collect(t, c.length, pieces...)
			if payload != c.payload || how != c.how || rest != c.rest {
				t.Errorf("%d, %.200q, %s: %.100q, %.100q, %q, want %.100q, %.100q, %q", c.length, c.stream, name, payload, rest, how, c.payload, c.rest, c.how)
			}
		}
		check("whole", c.stream)
		check("by bytes", strings.Split(c.stream, "")...)
		for at := range min(len(c.stream), 300) {
			check(fmt.Sprint("cut at ", at), c.stream[:at], c.stream[at:])
		}
	}
}

// The zero value is the body of a message that has none.
func TestZeroBody(t *testing.T) {
	t.Parallel()
	var b Body
	if skip, n, err := b.Next([]byte("abc")); !b.Done() || skip != 0 || n != 0 || err != nil || len(b.Trailers()) != 0 {
		t.Errorf("%d, %d, %v", skip, n, err)
	}
}

func TestTrailersThatAreKeptOut(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"Grpc-Status": true, "X": true, "Digest": true, "ETag": true, "Server-Timing": true, "X-Checksum-Sha256": true, "Content-Digest": true, "Hosts": true, "Ageless": true,
		"Strict-Transport-Security-Of-Another": true, strings.Repeat("x", 255): true,
		"Content-Length": false, "content-length": false, "CONTENT_LENGTH": false, "Content.Length": false, "Transfer-Encoding": false, "Transfer_Encoding": false, "Host": false, "Connection": false,
		"Trailer": false, "TE": false, "Upgrade": false, "Authorization": false, "Proxy-Authorization": false, "Proxy-Connection": false, "Cookie": false, "Set-Cookie": false, "Forwarded": false,
		"X-Forwarded-For": false, "X_Forwarded_For": false, "X-Forwarded-Anything-That-Is-Long-Enough-To-Be-Cut": false, "X-Real-IP": false, "X.Real.Ip": false, "X-Original-URI": false,
		"Expect": false, "Keep-Alive": false, "Content-Type": false, "Content-Encoding": false, "Content-Range": false, "Range": false, "If-Match": false, "Location": false, "Max-Forwards": false, "Via": false,
		"Strict-Transport-Security": false, "CF-Connecting-IP": false, "WWW-Authenticate": false, "Cache-Control": false, "Sec-WebSocket-Key": false, "HTTP2-Settings": false,
	} {
		if got := mayTrail([]byte(name)); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if !slices.IsSorted(keptOut) {
		t.Error("the names are not sorted")
	}
	for _, name := range keptOut {
		if mayTrail([]byte(name)) || mayTrail(bytes.ToUpper([]byte(name))) || !mayTrail([]byte(name+"z")) {
			t.Error(name)
		}
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	var got []string
	l := Lines{[]byte("A: b\r\nC:\r\nd:\t e:f \t\r\n")}
	for {
		name, value, line, ok := l.Next()
		if !ok {
			break
		}
		got = append(got, fmt.Sprintf("%s=%s in %q", name, value, line))
	}
	if want := `A=b in "A: b\r\n", C= in "C:\r\n", d=e:f in "d:\t e:f \t\r\n"`; strings.Join(got, ", ") != want {
		t.Errorf("got %s", strings.Join(got, ", "))
	}
	for _, none := range []string{"", "A: b", "A\r\n", "\r\n"} { // no lines that were checked
		l := Lines{[]byte(none)}
		if name, value, line, ok := l.Next(); ok {
			t.Errorf("%q: %q, %q, %q", none, name, value, line)
		}
	}
}

// A message without trailers costs no memory, whatever else it has.
func TestNothingIsAllocated(t *testing.T) {
	request := []byte(postA + "Connection: close, upgrade\r\nUpgrade: x\r\nExpect: 100-continue\r\nX-Forwarded-For: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a\r\nhello\r\n0\r\n\r\n")
	bad := []byte(postA + "Content-Length: x\r\n\r\n")
	response := []byte(ok + "Date: x\r\nContent-Length: 5\r\n\r\nhello")
	if n := testing.AllocsPerRun(100, func() {
		var r Request
		var body Body
		n, err := r.Parse(request)
		if n == 0 || err != nil {
			t.Error(err)
		}
		body.Begin(r.Length)
		for p := request[n:]; !body.Done(); {
			skip, size, err := body.Next(p)
			if err != nil || skip+size == 0 {
				t.Fatal(err)
			}
			p = p[skip+size:]
		}
		for l := (Lines{r.Fields}); ; {
			if name, _, _, ok := l.Next(); !ok {
				break
			} else if bytes.Contains(name, []byte{'\n'}) {
				t.Error(name)
			}
		}
		if _, err := r.Parse(bad); err == nil {
			t.Error("accepted")
		}
		var a Response
		if n, err := a.Parse(response, false); n == 0 || err != nil {
			t.Error(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
