package server

import (
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/policy"
)

// Residents and fasthttp give the same answers around every length that one of them
// bounds, and to all kinds of names, values and targets at the edge of what they take.
func TestSameAtBounds(t *testing.T) {
	t.Parallel()
	get := func(target, lines string) string {
		return "GET " + target + " HTTP/1.1\r\nHost: a\r\n" + lines + "\r\n"
	}
	x := func(n int) string { return strings.Repeat("x", n) }
	plain := get("/", "")
	var all []string
	for n := 4090; n <= 4100; n++ { // the small reader
		all = append(all, get("/", "X: "+x(n-len(get("/", "X: \r\n")))+"\r\n"), get("/"+x(n-len(plain)), ""))
	}
	for n := 250; n <= 260; n++ { // lines that the gate keeps
		all = append(all, get("/", x(n)+":\r\n"), get("/", x(n)+": k\r\n"), get("/", "X:"+x(n)+"\r\n"), get("/", "Connection:"+x(n-20)+"\r\n"),
			get("/", "Connection: "+x(n-20)+", close\r\n"), get("/", "Host"+x(n)+": a\r\n"), x(n)+plain, strings.ToUpper(x(n))+plain)
	}
	for _, name := range []string{"X-Api-Key", "X-API-KEY", "X_Api_Key", "x-api-key ", "X-Api-Key\t", "X-Api\x00Key", "X-Api\x80Key", "\xc5\xbf-Api-Key", "Content_Length", "Transfer_Encoding", "Host ", "hoſt", "H\x00st", "(", "X-Api-Key:"} {
		for _, value := range []string{"", " ", "1", "\t1\t", "1\x00", "1\x7f", "1\x80", "1\r", "1\v", "chunked", "1, 2", ":"} {
			all = append(all, get("/", name+":"+value+"\r\n"), get("/", "X-Api-Key: one\r\n"+name+":"+value+"\r\n"))
		}
	}
	for _, host := range []string{"a,b", "u@a", "a:b", "a:80:80", "a/b", "[::1", "[::1]x", "a%41", "\xc3\xa4", "a\tb", ".", "a..b", "-", "1.2.3.4", "a?b", "a#b", "a\\b", `"a"`, "*"} {
		all = append(all, "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
	}
	for _, target := range []string{"/?a b", "/\x7f", "/\x80", "/%", "/%zz", "/%00", "/;a", "/\\a", "/?http://b/", "///", "/..", "/a\"<>`{}|^", "/?#", "/a:80", "a/", "/\tb", "//a@b/", "http:///", "http://a", "HTTP://a/", "/?" + x(300)} {
		all = append(all, get(target, ""))
	}
	for _, n := range []int{15, 16, 17, 31, 32, 33, 140, 147} { // pipelined, and what a turn answers
		all = append(all, strings.Repeat(plain, n), strings.Repeat(plain, n)+"GET", strings.Repeat(plain, n)+get("/", "Connection: close\r\n")+plain)
	}
	for name, change := range map[string]func(*policy.Settings){"direct": direct, "proxied": proxied} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTwins(t, change)
			for i, s := range all {
				for n, stream := range []string{s, plain + s, plain + plain + s + plain} {
					w.style = (i + n) % len(styles)
					w.same(t, []byte(stream), len(stream), false)
				}
			}
		})
	}
}
