package recipes_test

import (
	"fmt"
	"strings"
)

// odd are requests that fastlimit, or the front before it, may refuse.
var odd = map[string]string{
	"comma in Host":          "GET / HTTP/1.1\r\nHost: a,b\r\n\r\n",
	"half a bracket":         "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n",
	"Host not ASCII":         "GET / HTTP/1.1\r\nHost: \xff\xfe\r\n\r\n",
	"Host with a space":      "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
	"Host with a slash":      "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
	"Host percent":           "GET / HTTP/1.1\r\nHost: %zz\r\n\r\n",
	"Host with user":         "GET / HTTP/1.1\r\nHost: u@h\r\n\r\n",
	"Host with bad port":     "GET / HTTP/1.1\r\nHost: h:99999999\r\n\r\n",
	"long Host":              "GET / HTTP/1.1\r\nHost: " + strings.Repeat("a", 4000) + "\r\n\r\n",
	"empty Host":             "GET / HTTP/1.1\r\nHost:\r\n\r\n",
	"two Hosts":              "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
	"no Host":                "GET / HTTP/1.1\r\n\r\n",
	"HTTP/1.0":               "GET / HTTP/1.0\r\n\r\n",
	"HTTP/1.0 with Host":     "GET / HTTP/1.0\r\nHost: example.com\r\n\r\n",
	"HTTP/0.9":               "GET /\r\n",
	"HTTP/3.0":               "GET / HTTP/3.0\r\nHost: example.com\r\n\r\n",
	"percent":                get("/%zz"),
	"cut percent":            get("/a%2"),
	"encoded NUL":            get("/a%00b"),
	"target not ASCII":       get("/\xff\xfe"),
	"target not UTF-8":       get("/%ff%fe"),
	"dots":                   get("/../../etc"),
	"encoded dots":           get("/%2e%2e/%2e%2e/x"),
	"encoded slash":          get("/a%2fb"),
	"backslash":              get(`/a\b`),
	"fragment":               get("/a#b"),
	"only a query":           get("?a"),
	"absolute":               get("http://other.example/a"),
	"absolute without host":  get("http:///a"),
	"asterisk":               "OPTIONS * HTTP/1.1\r\nHost: example.com\r\n\r\n",
	"GET asterisk":           get("*"),
	"CONNECT":                "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n",
	"unknown method":         "FOO / HTTP/1.1\r\nHost: example.com\r\n\r\n",
	"long method":            strings.Repeat("A", 3000) + " / HTTP/1.1\r\nHost: example.com\r\n\r\n",
	"long target":            get("/" + strings.Repeat("a", 7000)),
	"9 KB of fields":         "GET / HTTP/1.1\r\nHost: example.com\r\n" + fields(9, 1000) + "\r\n",
	"30 KB of fields":        "GET / HTTP/1.1\r\nHost: example.com\r\n" + fields(10, 3000) + "\r\n",
	"60 KB of fields":        "GET / HTTP/1.1\r\nHost: example.com\r\n" + fields(20, 3000) + "\r\n",
	"long target and fields": "GET /" + strings.Repeat("a", 7000) + " HTTP/1.1\r\nHost: example.com\r\nX-Api-Key: " + strings.Repeat("k", 7000) + "\r\n\r\n",
	"60 KB of target":        get("/" + strings.Repeat("a", 60000)),
	"200 KB of target":       get("/" + strings.Repeat("a", 200000)),
	"a field of 20 KB":       "GET / HTTP/1.1\r\nHost: example.com\r\n" + fields(1, 20000) + "\r\n",
	"a field not ASCII":      "GET / HTTP/1.1\r\nHost: example.com\r\nX-A: \xff\r\n\r\n",
	"a field folded":         "GET / HTTP/1.1\r\nHost: example.com\r\nX-A: b\r\n c\r\n\r\n",
	"bare LF":                "GET / HTTP/1.1\nHost: example.com\n\n",
	"length and chunked":     "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"two lengths":            "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na",
	"length not a number":    "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: x\r\n\r\n",
	"unknown encoding":       "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
	"chunked":                "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
	"trailer":                "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n",
	"Upgrade":                "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
	"Upgrade to h2c":         "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n",
	"Expect":                 "GET / HTTP/1.1\r\nHost: example.com\r\nExpect: 100-continue\r\n\r\n",
	"unknown Expect":         "GET / HTTP/1.1\r\nHost: example.com\r\nExpect: miracle\r\n\r\n",
	"Connection names ours":  "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: X-Forwarded-For, X-Forwarded-Uri, X-Forwarded-Method, X-Original-URI, X-Original-Method\r\n\r\n",
	"underscores":            "GET / HTTP/1.1\r\nHost: example.com\r\nX_Forwarded_For: 192.0.2.1\r\nX_Original_URI: /b\r\n\r\n",
	"two addresses":          "GET / HTTP/1.1\r\nHost: example.com\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 192.0.2.2\r\n\r\n",
}

// fields are n fields with values of some size.
func fields(n, size int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "X-Field-%d: %s\r\n", i, strings.Repeat("v", size))
	}
	return b.String()
}
