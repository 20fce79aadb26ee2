//go:build linux

package redisfault

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/miekg/dns"
)

// resolution is the answer of the name server for a name: an IPv4 address, or one of
// the failures below.
type resolution [4]byte

var (
	known   = resolution{127, 0, 0, 1}
	unknown = resolution{0, 0, 0, 1} // no such name
	broken  = resolution{0, 0, 0, 2} // the server failed
	silent  = resolution{0, 0, 0, 3} // no answer
)

// names is the name server of this process, in memory.
var names = nameServer{of: make(map[string]resolution)}

// nameServer answers questions for IPv4 addresses. It is safe for concurrent
// use.
type nameServer struct {
	mu    sync.Mutex
	of    map[string]resolution // by name
	count int
}

// UseNames makes this process resolve all names by a name server in memory, which
// knows only the names that faults use, until restore is called. It replaces
// net.DefaultResolver without a lock, so nothing may dial during either call.
func UseNames() (restore func()) {
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go names.serve(server)
		return client, nil
	}}
	return func() { net.DefaultResolver = before }
}

// add makes a new name, of 127.0.0.1.
func (n *nameServer) add(t testkit.T) string {
	n.mu.Lock()
	n.count++
	name := fmt.Sprintf("redis-%d.test", n.count)
	n.of[name] = known
	n.mu.Unlock()
	if addrs, err := net.LookupHost(name); err != nil || len(addrs) != 1 || addrs[0] != "127.0.0.1" {
		t.Fatalf("redisfault: %s is %v, %v: call UseNames", name, addrs, err)
	}
	return name
}

func (n *nameServer) set(name string, r resolution) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.of[name] = r
}

// serve answers the questions of one connection.
func (n *nameServer) serve(c net.Conn) {
	conn := dns.Conn{Conn: c}
	defer conn.Close()
	for {
		query, err := conn.ReadMsg()
		if err != nil {
			return
		}
		if a := n.answer(query); a != nil && conn.WriteMsg(a) != nil {
			return
		}
	}
}

// answer returns the answer to a query, nil where there is none.
func (n *nameServer) answer(query *dns.Msg) *dns.Msg {
	if len(query.Question) != 1 {
		return nil
	}
	q := query.Question[0]
	n.mu.Lock()
	r, ok := n.of[strings.TrimSuffix(q.Name, ".")]
	n.mu.Unlock()
	a := new(dns.Msg).SetReply(query)
	a.RecursionAvailable = true
	switch {
	case r == silent:
		return nil
	case r == broken:
		a.Rcode = dns.RcodeServerFailure
	case !ok || r == unknown:
		a.Rcode = dns.RcodeNameError
	case q.Qtype == dns.TypeA:
		a.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET}, A: r[:]}}
	}
	return a
}
