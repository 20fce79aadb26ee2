// Package streams is a corpus of byte streams for servers of HTTP/1, most of which smuggle
// something, and a second reader of HTTP/1, by the grammar, to judge what servers make of
// them and of others.
package streams

import (
	"fmt"
	"strings"
)

// Item is a stream of bytes, and what RFC 9112 makes of it.
type Item struct {
	Name, Stream string
	OKs          int // requests that may be answered with 200
	// Body tells that what is wrong stands in a body, whose head a server may
	// have answered before it got there.
	Body bool
}

// Plain is a request.
const Plain = "GET /next HTTP/1.1\r\nHost: a\r\n\r\n"

// Corpus is built by class, by combination.
func Corpus() []Item {
	all := goodStreams()
	// What must be refused: alone, before and behind a good request. Nothing
	// behind it is read.
	refused := func(class string, n int, stream string, body bool) {
		name := fmt.Sprintf("%s %d", class, n)
		all = append(all,
			Item{name, stream, 0, body},
			Item{name + ", next", stream + Plain, 0, body},
			Item{name + ", between", Plain + stream + Plain, 1, body})
	}
	for n, line := range badRequestLines() {
		refused("request line", n, line+"Host: a\r\n\r\n", false)
	}
	for n, lines := range badFieldLines() {
		refused("field, last", n, "GET / HTTP/1.1\r\nHost: a\r\n"+lines+"\r\n", false)
		refused("field, with a body", n, "POST / HTTP/1.1\r\n"+lines+"Host: a\r\nX-Y: z\r\n\r\n", false)
	}
	for n, head := range badHeads() {
		refused("head", n, head, false)
	}
	for n, hosts := range badHosts() {
		refused("host", n, "GET / HTTP/1.1\r\n"+hosts+"\r\n", false)
		if hosts != "" {
			refused("host beside an absolute target", n, "GET http://b/ HTTP/1.1\r\n"+hosts+"\r\n", false)
		}
	}
	for n, body := range badChunks() {
		refused("chunks", n, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"+body, true)
	}
	return all
}

func badRequestLines() []string {
	all := []string{
		// Separators and the end of the line.
		"GET / HTTP/1.1\n", "GET  / HTTP/1.1\r\n", "GET /  HTTP/1.1\r\n", "GET\t/ HTTP/1.1\r\n", "GET /\tHTTP/1.1\r\n", " GET / HTTP/1.1\r\n",
		"\tGET / HTTP/1.1\r\n", "GET / HTTP/1.1 \r\n", "GET / HTTP/1.1\t\r\n", "GET / HTTP/1.1\r\r\n", "GET / HTTP/1.1\r", "GET /\rHTTP/1.1\r\n",
		"GET / HTTP/1.1\x00\r\n", "\nGET / HTTP/1.1\r\n", "\r\n\nGET / HTTP/1.1\r\n", "\r\n\r\nGET / HTTP/1.1\r\n", "\rGET / HTTP/1.1\r\n",
		"\xef\xbb\xbfGET / HTTP/1.1\r\n", "GET\r\n/ HTTP/1.1\r\n", "GET / x HTTP/1.1\r\n",
		// Methods.
		"/ HTTP/1.1\r\n", "G(T / HTTP/1.1\r\n", "GET: / HTTP/1.1\r\n", "G\x00ET / HTTP/1.1\r\n", "G\xc3\x89T / HTTP/1.1\r\n", "\"GET\" / HTTP/1.1\r\n", "GET@ / HTTP/1.1\r\n",
		"PRI * HTTP/1.1\r\n", "PRI / HTTP/1.1\r\n", "PRI * HTTP/2.0\r\n", "CONNECT a:443 HTTP/1.1\r\n", "CONNECT / HTTP/1.1\r\n", "CONNECT http://a/ HTTP/1.1\r\n",
		"CONNECT * HTTP/1.1\r\n", "CONNECT a HTTP/1.0\r\n",
		// Targets.
		"GET HTTP/1.1\r\n", "GET  HTTP/1.1\r\n", "GET a HTTP/1.1\r\n", "GET a/b HTTP/1.1\r\n", "GET ?a HTTP/1.1\r\n", "GET a:80 HTTP/1.1\r\n", "GET \\ HTTP/1.1\r\n",
		"OPTIONS *x HTTP/1.1\r\n", "OPTIONS ** HTTP/1.1\r\n", "OPTIONS /*\n HTTP/1.1\r\n", "GET http:/a HTTP/1.1\r\n", "GET http:a HTTP/1.1\r\n", "GET http:///a HTTP/1.1\r\n",
		"GET http:// HTTP/1.1\r\n", "GET http://?a HTTP/1.1\r\n", "GET ://a/ HTTP/1.1\r\n", "GET //a\x00 HTTP/1.1\r\n", "GET ftp://a/ HTTP/1.1\r\n", "GET h\x01ttp://a/ HTTP/1.1\r\n",
		"GET httpx://a/ HTTP/1.1\r\n", "GET file:///etc/passwd HTTP/1.1\r\n", "GET http://u@a/ HTTP/1.1\r\n", "GET http://u:p@a/ HTTP/1.1\r\n", "GET http://a:b/ HTTP/1.1\r\n",
		"GET http://a:99999/ HTTP/1.1\r\n", "GET http://[::1/ HTTP/1.1\r\n", "GET http://a..b/ HTTP/1.1\r\n", "GET http://a,b/ HTTP/1.1\r\n", "GET http://a\\b/ HTTP/1.1\r\n",
		"GET /\xce\xb4 HTTP/1.1\r\n", "GET /a?\xff HTTP/1.1\r\n", "GET http://a/\xc3\xa9 HTTP/1.1\r\n", "GET /%c3%a\xc3 HTTP/1.1\r\n", "GET /aaaaaaaaaaaa\x80 HTTP/1.1\r\n",
		"GET /#a HTTP/1.1\r\n", "GET /a?b#c HTTP/1.1\r\n", "GET # HTTP/1.1\r\n", "GET /%zz HTTP/1.1\r\n", "GET /%4 HTTP/1.1\r\n", "GET /% HTTP/1.1\r\n", "GET /%00 HTTP/1.1\r\n",
		// Versions.
		"GET /\r\n", "GET / \r\n", "GET / http/1.1\r\n", "GET / HTTP/1.1x\r\n", "GET / HTTP/11\r\n", "GET / HTTP/1\r\n", "GET / HTTP/1.\r\n", "GET / HTTP/.1\r\n",
		"GET / HTTP/01.1\r\n", "GET / HTTP/1.01\r\n", "GET / HTTP/1.10\r\n", "GET / HTTP/-1.1\r\n", "GET / HTTP/1,1\r\n", "GET / HTTP /1.1\r\n", "GET / HTTPS/1.1\r\n", "GET / XTTP/1.1\r\n",
		"GET / HTTP/0.9\r\n", "GET / HTTP/1.2\r\n", "GET / HTTP/2.0\r\n", "GET / HTTP/3.0\r\n", "GET / HTTP/9.9\r\n", "GET / ICY/1.1\r\n", "GET / RTSP/1.0\r\n", "GET / HTTP/\xd9\xa1.1\r\n",
	}
	for _, method := range []string{"GET", "POST", "PUT", "HEAD", "DELETE", "BREW", "options"} {
		all = append(all, method+" * HTTP/1.1\r\n", method+" * HTTP/1.0\r\n")
	}
	for c := range 0x21 { // every control byte and the blank
		all = append(all, fmt.Sprintf("GET /a%cb HTTP/1.1\r\n", c), fmt.Sprintf("G%cT / HTTP/1.1\r\n", c))
	}
	return append(all, "GET /a\x7fb HTTP/1.1\r\n", "G\x7fT / HTTP/1.1\r\n")
}

// badFieldLines are field lines that end the request whatever stands around
// them.
func badFieldLines() []string {
	all := []string{
		// Ends of lines, folds.
		"X: a\n", "X: a\r\n\tb\r\n", "X: a\r\n b\r\n", "X:\r\n a\r\n", "X: a\r\n \r\n", "X: a\n b\r\n", "X: a\r", "X: a\r\r\n", "X: a\rb\r\n", "X: a\rY: b\r\n", "\rX: a\r\n", "X: a\n\r\n",
		// Names.
		"X\r\n", "X a\r\n", ": a\r\n", " : a\r\n", "X : a\r\n", "X\t: a\r\n", "X Y: a\r\n", "X\x00: a\r\n", "\x00X: a\r\n", "X(Y): a\r\n", "X@Y: a\r\n", "X/Y: a\r\n", "\"X\": a\r\n",
		"X[0]: a\r\n", "X=Y: a\r\n", "X;Y: a\r\n", "X,Y: a\r\n", "X{}: a\r\n", "X\\Y: a\r\n", "X\xc3\xa9: a\r\n", "X\x7f: a\r\n", "X\x0b: a\r\n", "<X>: a\r\n", "X?: a\r\n",
		strings.Repeat("x", 300) + " : a\r\n",
		// A length beside others.
		"Content-Length : 3\r\n", "Content-Length\t: 3\r\n", "Content Length: 3\r\n", "Content-Length\x00: 3\r\n", "Content-Length\x0b: 3\r\n", "Transfer-Encoding : chunked\r\n",
		"Transfer-Encoding\t: chunked\r\n", "Transfer Encoding: chunked\r\n", "Transfer-Encoding\x00: chunked\r\n", "Transfer-Encoding\x0c: chunked\r\n", "Transfer-Encoding\xc2\xa0: chunked\r\n",
		"Transfer-Encoding:\r\n chunked\r\n", "Content-Length:\r\n 3\r\n", "X: y\nTransfer-Encoding: chunked\r\n", "X: y\rTransfer-Encoding: chunked\r\n",
		// Hosts beside the right one.
		"Host: a\r\n", "host: b\r\n", "HOST:\r\n", "Host : a\r\n",
		// An option list nobody can mean.
		"Connection: " + strings.Repeat("x, ", 100) + "close\r\n",
	}
	for c := range 0x20 {
		if c != '\t' {
			all = append(all, fmt.Sprintf("X: a%cb\r\n", c))
		}
	}
	for _, v := range []string{
		"", " ", "+3", "-3", "3 3", "3,3", "3, 3", "3;3", "0x3", "3.0", "3e0", "3_0", "\"3\"", "three", "3\x00", "\x0b3", "3\xa0", "\xd9\xa3", "9223372036854775808", "18446744073709551619",
		strings.Repeat("9", 40), strings.Repeat("0", 300) + "3",
	} {
		all = append(all, "Content-Length: "+v+"\r\n")
	}
	for _, v := range []string{
		"", " ", "identity", "gzip", "gzip, chunked", "chunked, gzip", "chunked, chunked", "chunked, identity", "identity, chunked", "chunked,", ",chunked", "chunked;q=1", "\"chunked\"", "'chunked'",
		"chunke", "xchunked", "chunkedx", "chunked\x00", "chunked\x0b", "\x0bchunked", "\x0cchunked", "chunked chunked", "c hunked", "chun\xc3\xa9ed", "\xe2\x84\xaahunked", "[chunked]",
		"chunked" + strings.Repeat(" ", 300) + ", gzip",
	} {
		all = append(all, "Transfer-Encoding: "+v+"\r\n")
	}
	for _, a := range []string{"Content-Length: 3\r\n", "content-length:3\r\n", "Transfer-Encoding: chunked\r\n", "TRANSFER-ENCODING:chunked\r\n"} {
		for _, b := range []string{"Content-Length: 3\r\n", "CONTENT-length: 4\r\n", "Content-Length: 0\r\n", "Transfer-Encoding: chunked\r\n", "transfer-encoding:\tCHUNKED\r\n"} {
			all = append(all, a+b, a+"Y: z\r\n"+b)
		}
	}
	return all
}

func badHeads() []string {
	return []string{
		// The end of the head.
		"GET / HTTP/1.1\r\nHost: a\r\n\n", "GET / HTTP/1.1\r\nHost: a\n\r\n", "GET / HTTP/1.1\nHost: a\n\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\r\n", "GET / HTTP/1.0\r\n\n", "GET / HTTP/1.0\n\n",
		"GET / HTTP/1.0\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n \r\n\r\n", "GET / HTTP/1.1\r\nHost: a\n\nX: y\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nX: y\n\n",
		// The first field line folded.
		"GET / HTTP/1.1\r\n Host: a\r\n\r\n", "GET / HTTP/1.1\r\n\tX: y\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\n \r\nHost: a\r\n\r\n",
		// HTTP/1.0 has no transfer codings.
		"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "POST / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n",
		// Other protocols.
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "SSH-2.0-x\r\n\r\n", "EHLO a\r\n\r\n", "*1\r\n$4\r\nPING\r\n\r\n",
		"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
	}
}

func badHosts() []string {
	all := []string{""}
	for _, v := range []string{
		"", " ", "a b", "a,b", "a, b", "a/b", "a\\b", "a?b", "a#b", "u@a", "a:b", "a:99999", "a:-1", "a:80:80", ":80", "::1", "[::1", "::1]", "[::1]x", "[::1]:x", "[", "[]", "[g]", "[1.2.3.4]", "[v1.a]",
		"a..b", ".a", ".", "a;b", "a\"b", "<a>", "a{b}", "a|b", "a^b", "\xc3\xa9", "a\xff", "http://a", "a\x00", "a\tb", "a%zz", "*", "(a)", "a=b",
	} {
		all = append(all, "Host: "+v+"\r\n")
	}
	return append(all, "Host: a\r\nHost: a\r\n", "Host: a\r\nhost: b\r\n", "Host: a\r\nX: y\r\nHOST: a\r\n", "Host\r\n", "Host : a\r\n", "Host: a\n")
}

func badChunks() []string {
	long := strings.Repeat("x", 1000)
	all := []string{
		// Sizes.
		"\r\nhello\r\n0\r\n\r\n", " 5\r\nhello\r\n0\r\n\r\n", "\t5\r\nhello\r\n0\r\n\r\n", "5 \r\nhello\r\n0\r\n\r\n", "5\t\r\nhello\r\n0\r\n\r\n", "5 ;a\r\nhello\r\n0\r\n\r\n", "5 5\r\nhello\r\n0\r\n\r\n",
		"+5\r\nhello\r\n0\r\n\r\n", "-5\r\nhello\r\n0\r\n\r\n", "0x5\r\nhello\r\n0\r\n\r\n", "5h\r\nhello\r\n0\r\n\r\n", "g\r\nhello\r\n0\r\n\r\n", "5,\r\nhello\r\n0\r\n\r\n", "5.\r\nhello\r\n0\r\n\r\n", "5_\r\nhello\r\n0\r\n\r\n",
		"\x005\r\nhello\r\n0\r\n\r\n", "5\x00\r\nhello\r\n0\r\n\r\n", "\xef\xbc\x95\r\nhello\r\n0\r\n\r\n", "fffffffffffffffff\r\nhello\r\n0\r\n\r\n", "10000000000000005\r\nhello\r\n0\r\n\r\n",
		strings.Repeat("0", 400) + "5\r\nhello\r\n0\r\n\r\n", "5\"\"\r\nhello\r\n0\r\n\r\n", ";a=b\r\nhello\r\n0\r\n\r\n",
		// Ends of lines.
		"5\nhello\r\n0\r\n\r\n", "5\rhello\r\n0\r\n\r\n", "5\r\r\nhello\r\n0\r\n\r\n", "5\r\nhello\n0\r\n\r\n", "5\r\nhello\r0\r\n\r\n", "5\r\nhello0\r\n\r\n", "5\r\nhello\r\r\n0\r\n\r\n", "5\r\nhello\n\r0\r\n\r\n",
		"5\r\nhello\r\n0\n\r\n", "5\r\nhello\r\n0\r\n\n", "5\r\nhello\r\n0\n\n", "5\n\rhello\r\n0\r\n\r\n",
		// A size that is not that of the data.
		"4\r\nhello\r\n0\r\n\r\n", "6\r\nhello\r\n0\r\n\r\n", "5\r\nhelloXX\r\n0\r\n\r\n", "5\r\nhello  0\r\n\r\n",
		// The last chunk.
		"5\r\nhello\r\n0 \r\n\r\n", "5\r\nhello\r\n0x0\r\n\r\n", "5\r\nhello\r\n\r\n0\r\n\r\n", "5\r\nhello\r\n-0\r\n\r\n",
		// Extensions.
		"5;\x00\r\nhello\r\n0\r\n\r\n", "5;a=\x01\r\nhello\r\n0\r\n\r\n", "5;a\nhello\r\n0\r\n\r\n", "5;a\rb\r\nhello\r\n0\r\n\r\n", "5;a=\"\n\"\r\nhello\r\n0\r\n\r\n", "5;a\x7f\r\nhello\r\n0\r\n\r\n",
		"5;" + long + "\r\nhello\r\n0\r\n\r\n", "5;" + strings.Repeat("x", 2<<20) + "\r\nhello\r\n0\r\n\r\n", strings.Repeat("1;"+strings.Repeat("x", 200)+"\r\na\r\n", 30) + "0\r\n\r\n",
		// Trailers.
		"0\r\nX : a\r\n\r\n", "0\r\nX Y: a\r\n\r\n", "0\r\n X: a\r\n\r\n", "0\r\nX: a\r\n b\r\n\r\n", "0\r\nX: a\n\r\n", "0\r\nX\r\n\r\n", "0\r\n: a\r\n\r\n", "0\r\nX: a\x00\r\n\r\n", "0\r\nX: a\rb\r\n\r\n", "0\r\nX: a\x7f\r\n\r\n",
		"0\r\nX: " + long + "\r\n\r\n", "0\r\n" + strings.Repeat("X: a\r\n", 1000) + "\r\n", "0\r\nX\x00: a\r\n\r\n",
	}
	for c := range 0x100 { // every byte after the size but the good ones
		if !strings.ContainsRune("\r\n;0123456789abcdefABCDEF", rune(c)) {
			all = append(all, "5"+string([]byte{byte(c)})+"\r\nhello\r\n0\r\n\r\n")
		}
	}
	return all
}
