package httpbench

import (
	"fmt"
	"strings"

	"github.com/fastlimit/fastlimit/bench/load"
)

// shape is what a load looks like to the server, whatever it answers.
type shape struct {
	conns     int
	head      string // a key of heads
	reconnect bool   // one connection for each request
	leave     bool   // which the client closes
}

// heads are the headers beside Host.
var heads = map[string][]string{
	"host": nil,
	// What a browser sends for a page of a shop.
	"browser": {
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
		"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
		"Accept-Language: en-GB,en;q=0.9,de;q=0.7",
		"Accept-Encoding: gzip, deflate, br, zstd",
		"Cookie: sid=5f2b9c1e7a3d4086b1c2d3e4f5a6b7c8; consent=1; theme=dark; _ga=GA1.1.1234567890.1760000000",
		"Referer: https://shop.example/category/shoes?page=2",
		"Sec-Fetch-Dest: document",
		"Sec-Fetch-Mode: navigate",
		"Sec-Fetch-Site: same-origin",
		"Cache-Control: max-age=0",
	},
	// What nginx sends for auth_request, as docs/recipes/nginx.conf has it.
	"forwarded": {
		"X-Forwarded-For: 203.0.113.7",
		"X-Original-Method: GET",
		"X-Original-URI: /category/shoes?page=2",
	},
}

// request is the head of a request.
func (s shape) request() []byte {
	lines := append([]string{"GET / HTTP/1.1", "Host: shop.example"}, heads[s.head]...)
	if s.reconnect && !s.leave {
		lines = append(lines, "Connection: close")
	}
	return []byte(strings.Join(lines, "\r\n") + "\r\n\r\n")
}

// name is that of the workload, with what differs from the usual shape.
func (s shape) name(answer string, usual int) string {
	if s.conns != usual {
		answer += fmt.Sprintf(", %d connections", s.conns)
	}
	switch {
	case s.leave:
		answer += ", one for each request, which the client closes"
	case s.reconnect:
		answer += ", one for each request"
	}
	if s.head != "host" {
		answer += ", " + s.head + " headers"
	}
	return answer
}

// load is a closed loop, from so many addresses.
func (s shape) load(sources int) load.SpinConfig {
	return load.SpinConfig{Request: s.request(), Conns: s.conns, Sources: sources, Reconnect: s.reconnect, Leave: s.leave, Warmup: warmup}
}

// shapes are all combinations that are asked for.
func (o Options) shapes() (all []shape) {
	conns := o.Conns
	if conns == nil {
		conns = []int{o.Clients}
	}
	for _, head := range o.Headers {
		for _, n := range conns {
			all = append(all, shape{conns: n, head: head})
		}
		for _, n := range conns {
			if o.Reconnect {
				all = append(all, shape{n, head, true, false}, shape{n, head, true, true})
			}
		}
	}
	return all
}

// most is the largest number of connections at a time.
func (o Options) most() int {
	n := max(o.Clients, o.Idle)
	for _, s := range o.shapes() {
		n = max(n, s.conns)
	}
	return n
}
