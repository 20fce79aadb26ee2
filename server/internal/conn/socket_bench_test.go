//go:build linux && (amd64 || arm64)

package conn

import (
	"net"
	"testing"
)

// BenchmarkSocket is one read and one write of a TCP socket, of which a request has one
// each, as a resident has them and as a [net.Conn] has them, with nothing to wait for.
// Both include the write and the read of the client.
func BenchmarkSocket(b *testing.B) {
	request, answer, buf := []byte(simple), make([]byte, 600), make([]byte, smallHead)
	type ends struct {
		nc      net.Conn
		s, back *rawSocket
	}
	for _, way := range []struct {
		name  string
		serve func(*ends) (read, written int)
	}{
		{"raw", func(e *ends) (int, int) { n, _ := e.s.read(buf); return n, e.s.write(answer) }},
		{"net", func(e *ends) (int, int) {
			n, _ := e.nc.Read(buf)
			m, _ := e.nc.Write(answer)
			return n, m
		}},
	} {
		b.Run(way.name, func(b *testing.B) {
			ln, err := Listen("listen", "127.0.0.1:0", 0, false)
			if err != nil {
				b.Fatal(err)
			}
			defer ln.Close()
			client := dialFrom(b, "127.0.0.1", ln.Addr().String())
			nc, err := ln.Accept()
			if err != nil {
				b.Fatal(err)
			}
			defer nc.Close()
			e := &ends{nc, rawOf(b, nc), rawOf(b, client)}
			for b.Loop() {
				e.back.write(request)
				if n, m := way.serve(e); n != len(request) || m != len(answer) {
					b.Fatal(n, m)
				}
				if _, got := e.back.read(buf); got != arrived {
					b.Fatal(got)
				}
			}
		})
	}
}

func rawOf(b *testing.B, nc net.Conn) *rawSocket {
	b.Helper()
	raw, err := nc.(*net.TCPConn).SyscallConn()
	if err != nil {
		b.Fatal(err)
	}
	s := &rawSocket{}
	if err := raw.Control(s.open); err != nil {
		b.Fatal(err)
	}
	return s
}
