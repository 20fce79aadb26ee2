//go:build linux

package redisfault

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// resolution is what a name server says of a name: an address of 4 bytes, or
// one of those below.
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

// UseNames makes this process resolve all names by a name server in memory that
// knows those of faults only, until restore is called. Nothing that may dial
// may run at either time.
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
func (n *nameServer) add(t redistest.T) string {
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

// serve answers the questions of one connection, which come with their length
// since it is a stream (RFC 1035, 4.2.2).
func (n *nameServer) serve(c net.Conn) {
	defer c.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		answer, ok := n.answer(query)
		if !ok {
			continue
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

// answer returns the answer to a query, and false where there is none.
func (n *nameServer) answer(query []byte) ([]byte, bool) {
	const header, typeA = 12, 1
	name, end := "", header
	for end < len(query) && query[end] != 0 {
		label := end + 1 + int(query[end])
		if label > len(query) {
			return nil, false
		}
		name += "." + string(query[end+1:label])
		end = label
	}
	end += 1 + 4 // the root, type and class
	if end > len(query) || name == "" {
		return nil, false
	}
	n.mu.Lock()
	r, ok := n.of[name[1:]]
	n.mu.Unlock()
	if r == silent {
		return nil, false
	}
	code := byte(0)
	switch {
	case r == broken:
		code = 2
	case !ok || r == unknown:
		code = 3
	}
	found := byte(0)
	if code == 0 && binary.BigEndian.Uint16(query[end-4:]) == typeA {
		found = 1
	}
	a := append([]byte(nil), query[:2]...)
	a = append(a, 0x81, 0x80|code, 0, 1, 0, found, 0, 0, 0, 0)
	a = append(a, query[header:end]...)
	if found == 1 { // the name of the question, type, class, lives for 0 s, 4 bytes
		a = append(a, 0xc0, header, 0, typeA, 0, 1, 0, 0, 0, 0, 0, 4)
		a = append(a, r[:]...)
	}
	return a, true
}
