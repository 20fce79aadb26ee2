package streams

import "strings"

// goodStreams are streams in which every request has one meaning, or in which
// what stands behind the last one is none.
func goodStreams() []Item {
	get := func(lines string) string { return "GET / HTTP/1.1\r\nHost: a\r\n" + lines + "\r\n" }
	post := func(lines, body string) string { return "POST / HTTP/1.1\r\nHost: a\r\n" + lines + "\r\n" + body }
	chunked := func(body string) string { return post("Transfer-Encoding: chunked\r\n", body) }
	all := []Item{
		{Name: "nothing"},
		{Name: "one", Stream: Plain, OKs: 1},
		{Name: "ten", Stream: strings.Repeat(Plain, 10), OKs: 10},
		{Name: "an empty line first", Stream: "\r\n" + Plain, OKs: 1},
		{Name: "an empty line between", Stream: Plain + "\r\n" + Plain, OKs: 2},
		{Name: "an empty line after", Stream: Plain + "\r\n", OKs: 1},
		{Name: "half a request line", Stream: Plain + "GET / HT", OKs: 1},
		{Name: "half a head", Stream: Plain + "GET / HTTP/1.1\r\nHost: a\r\nX", OKs: 1},
		{Name: "no empty line", Stream: "GET / HTTP/1.1\r\nHost: a\r\n"},
		{Name: "half a body", Stream: post("Content-Length: 10\r\n", "abc"), Body: true},
		{Name: "half a chunk", Stream: chunked("5\r\nhel"), Body: true},
		{Name: "half a chunk size", Stream: chunked("5"), Body: true},
		{Name: "no trailer end", Stream: chunked("0\r\nX: a\r\n"), Body: true},
		{Name: "HTTP/1.0", Stream: "GET / HTTP/1.0\r\n\r\n" + Plain, OKs: 1},
		{Name: "HTTP/1.0 that goes on", Stream: "GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n" + Plain, OKs: 2},
		{Name: "HTTP/1.0 that says both", Stream: "GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive, close\r\n\r\n" + Plain, OKs: 1},
		{Name: "HTTP/1.0 with a body", Stream: "POST / HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello" + Plain, OKs: 1},
	}
	add := func(stream string, oks int) { all = append(all, Item{Name: "good", Stream: stream, OKs: oks}) }
	for _, v := range []string{"close", "Close", "CLOSE", "keep-alive, close", "close, keep-alive", " close ", "\tclose\t", "x,close,y", "Upgrade ,\tClose", ",close"} {
		add(get("Connection: "+v+"\r\n")+Plain, 1)
		add(get("CONNECTION:"+v+"\r\nX: y\r\n")+Plain, 1)
		add(get("Connection: "+v+"\r\nConnection: keep-alive\r\n")+Plain, 1)
		add(chunked("0\r\n\r\n")+post("Connection: "+v+"\r\nContent-Length: 1\r\n", "x")+Plain, 2)
	}
	for _, v := range []string{"keep-alive", "", "closed", "xclose", "close-notify", "c lose", "Upgrade, HTTP2-Settings", "\"close\""} {
		add(get("Connection: "+v+"\r\n")+Plain, 2)
	}
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "get", "M-SEARCH", "!#$%&'*+-.^_`|~9Az"} {
		for _, target := range []string{"/", "/a", "//a", "/a/../b?c=d", "/?", "/%41%2f", "/a;b=c", "/~!$&'()*+,;=:@", "/\"<>\\^`{|}", "/?\"{}|^`", "http://b/", "HTTP://b:80/x?y", "https://[::1]:8443/", "http://b", "http://b?x"} {
			add(method+" "+target+" HTTP/1.1\r\nHost: a\r\n\r\n"+Plain, 2)
		}
	}
	for _, host := range []string{"a", "A.b", "a:80", "a:", "192.0.2.1", "192.0.2.1:80", "[::1]", "[2001:DB8::1]:80", "a.", "a_b", "xn--9ca", "\ta\t", strings.Repeat("a.", 120) + "b"} {
		add("GET / HTTP/1.1\r\nhOST:"+host+"\r\n\r\n"+Plain, 2)
	}
	for _, lines := range []string{
		"X:\r\n", "X: \t\r\n", "X:a\r\n", "X: a\tb\r\n", "X: \xc3\xa9\xff\r\n", "X: a: b\r\n", "!#$%&'*+-.^_`|~9Az: a\r\n", "X: a\r\nX: b\r\n", "Content-Length-X: 3\r\n", "Content_Length: 3\r\n",
		"Transfer-Encodings: chunked\r\n", "TE: chunked\r\n", "X: " + strings.Repeat("a", 3000) + "\r\n", strings.Repeat("n", 200) + ": a\r\n", "Upgrade: h2c\r\nConnection: Upgrade\r\n",
		"Content-Length: 0\r\n", "Content-Length: 000\r\n", "Trailer: X\r\n", "X: " + strings.Repeat(" ", 300) + "\r\n",
	} {
		add(get(lines)+Plain, 2)
		add("GET / HTTP/1.1\r\n"+lines+"Host: a\r\n\r\n"+Plain, 2)
	}
	for _, lines := range []string{"Content-Length: 5\r\n", "CONTENT-LENGTH:5\r\n", "content-length:\t 5 \t\r\n", "Content-Length: 005\r\n"} {
		add(post(lines, "hello")+Plain, 2)
		add(post(lines, "a\r\n\r\n")+Plain, 2)
		add(get(lines)+"\n\n\n\n\x00"+Plain, 2)
		add(post(lines, "hello")+post(lines, "GET /")+get(""), 3)
	}
	for _, body := range []string{
		"0\r\n\r\n", "000\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n", "00005\r\nhello\r\n0\r\n\r\n", "a\r\n0123456789\r\n0\r\n\r\n", "A\r\n0123456789\r\n00\r\n\r\n", "1\r\n\r\r\n1\r\n\n\r\n0\r\n\r\n", "5;a\r\nhello\r\n0\r\n\r\n",
		"5;a=b;c=\"d e\"\r\nhello\r\n0;x\r\n\r\n", "5; a = b\r\nhello\r\n0\r\n\r\n", "0\r\nX: a\r\n\r\n", "5\r\nhello\r\n0\r\nX: a\r\nY:\r\n\r\n", "0\r\nX: \xc3\xa9\r\n\r\n",
		strings.Repeat("1\r\nx\r\n", 300) + "0\r\n\r\n", "400\r\n" + strings.Repeat("x\n", 512) + "\r\n0\r\n\r\n",
	} {
		add(chunked(body)+Plain, 2)
		add(post("transfer-encoding:\t Chunked \r\nX: y\r\n", body)+chunked(body), 2)
	}
	return all
}
