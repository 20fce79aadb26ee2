package server

import (
	"strings"
	"testing"
)

// What would be framing in HTTP/1.1, or has two meanings there, is refused: nothing is
// admitted that a client of HTTP/1.1 could not have sent, and nothing behind it is read as
// another request.
func TestHTTP2Downgrade(t *testing.T) {
	t.Parallel()
	s := start(t, generous(), withTLS(t))
	get := []string{":method", "GET", ":scheme", "https", ":path", "/", ":authority", "a"}
	with := func(at int, value string, more ...string) []string {
		q := append(append([]string{}, get...), more...)
		q[at] = value
		return q
	}
	const method, path, authority = 1, 5, 7
	for name, c := range map[string]struct {
		fields []string
		body   string
		ok     bool
	}{
		"plain":                   {get, "", true},
		"with a body":             {get, "abc", true},
		"length and body":         {append(get, "content-length", "3"), "abc", true},
		"empty value":             {append(get, "x", ""), "", true},
		"blanks around a value":   {append(get, "x", " y "), "", true},
		"query":                   {with(path, "/?a=b:c"), "", true},
		"path with CRLF":          {with(path, "/ HTTP/1.1\r\nHost: b\r\n\r\nGET /x"), "", false},
		"path with a blank":       {with(path, "/a HTTP/1.1"), "", false},
		"path with a tab":         {with(path, "/a\tb"), "", false},
		"path with a NUL":         {with(path, "/a\x00b"), "", false},
		"path with a fragment":    {with(path, "/a#b"), "", false},
		"path beyond ASCII":       {with(path, "/\xc3\xa4"), "", false},
		"path without a slash":    {with(path, "a"), "", false},
		"absolute path":           {with(path, "http://b/"), "", false},
		"empty path":              {with(path, ""), "", false},
		"asterisk":                {with(path, "*"), "", false},
		"method with a blank":     {with(method, "GET /x HTTP/1.1"), "", false},
		"method and a blank":      {with(method, "GET "), "", false},
		"method with CRLF":        {with(method, "GET / HTTP/1.1\r\nX: y\r\n\r\nGET"), "", false},
		"method with a colon":     {with(method, "G:T"), "", false},
		"empty method":            {with(method, ""), "", false},
		"CONNECT":                 {[]string{":method", "CONNECT", ":authority", "a:443"}, "", false},
		"extended CONNECT":        {with(method, "CONNECT", ":protocol", "websocket"), "", false},
		"PRI":                     {with(method, "PRI"), "", false},
		"authority with CRLF":     {with(authority, "a\r\nX: y"), "", false},
		"authority with a user":   {with(authority, "b@a"), "", false},
		"authority with a blank":  {with(authority, "a b"), "", false},
		"authority with a path":   {with(authority, "a/b"), "", false},
		"no authority":            {get[:6], "", false},
		"host instead":            {append(append([]string{}, get[:6]...), "host", "a"), "", true},
		"the same host":           {append(get, "host", "a"), "", true},
		"another host":            {append(get, "host", "b"), "", false},
		"two hosts":               {append(get, "host", "a", "host", "a"), "", false},
		"value with CRLF":         {append(get, "x", "y\r\nZ: z"), "", false},
		"value with LF":           {append(get, "x", "y\nZ: z"), "", false},
		"value with CR":           {append(get, "x", "y\rz"), "", false},
		"value with NUL":          {append(get, "x", "y\x00z"), "", false},
		"value that folds":        {append(get, "x", "\r\n y"), "", false},
		"name with a colon":       {append(get, "x: y\r\nz", "1"), "", false},
		"name with a blank":       {append(get, "x ", "1"), "", false},
		"name in capitals":        {append(get, "X", "1"), "", false},
		"empty name":              {append(get, "", "1"), "", false},
		"late pseudo-header":      {append(get, "x", "y", ":path", "/b"), "", false},
		"two paths":               {append(append([]string{}, get...), ":path", "/b"), "", false},
		"chunked":                 {append(get, "transfer-encoding", "chunked"), "0\r\n\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n", false},
		"connection":              {append(get, "connection", "keep-alive, x"), "", false},
		"upgrade":                 {append(get, "upgrade", "h2c"), "", false},
		"te":                      {append(get, "te", "chunked"), "", false},
		"te: trailers":            {append(get, "te", "trailers"), "", true},
		"length without a body":   {append(get, "content-length", "3"), "", false},
		"two lengths":             {append(get, "content-length", "3", "content-length", "4"), "abc", false},
		"two equal lengths":       {append(get, "content-length", "3", "content-length", "3"), "abc", false},
		"list of lengths":         {append(get, "content-length", "3, 3"), "abc", false},
		"length with a sign":      {append(get, "content-length", "+3"), "abc", false},
		"length 0 without a body": {append(get, "content-length", "0"), "", true},
		"chunks within a body":    {get, "0\r\n\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n", true},
		"odd expectation":         {append(get, "expect", "x"), "", false},
		"a head that is too long": {append(get, "x", strings.Repeat("x", 40000)), "", false},
	} {
		before := s.counts()[0]
		f := newFramer(t, dial(t, s.addr))
		f.request(1, c.body == "", c.fields...)
		if c.body != "" {
			_ = f.WriteData(1, true, []byte(c.body)) // it may have been refused by now
		}
		got := f.answer(1)
		if c.ok != (got == "200") || strings.HasPrefix(got, "5") {
			t.Errorf("%s: %s", name, got)
		}
		want := before
		if c.ok {
			want++
		}
		eventually(t, func() bool { f.conn.Close(); return s.conns.Open() == 0 })
		if n := s.counts()[0]; n != want && !strings.Contains(name, "length") {
			t.Errorf("%s: %d requests are admitted", name, n-before)
		}
	}
}
