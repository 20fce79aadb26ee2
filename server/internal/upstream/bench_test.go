package upstream

import (
	"net"
	"net/netip"
	"testing"
	"time"
)

// BenchmarkAsk is a request and its answer, with Get and Put, and what a plain connection
// takes for the same, with deadlines and without a pool. The time includes that of the server.
func BenchmarkAsk(b *testing.B) {
	request, into := make([]byte, 300), make([]byte, 4096)
	b.Run("pool", func(b *testing.B) {
		p := newPool(b, Config{Servers: []Server{newOrigin(b, "tcp", echo).server()}})
		b.ReportAllocs()
		for b.Loop() {
			c, err := p.Get(netip.Addr{}, nil, false)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := c.Ask(request, into); err != nil {
				b.Fatal(err)
			}
			p.Put(c)
		}
	})
	b.Run("plain", func(b *testing.B) {
		o := newOrigin(b, "tcp", echo)
		nc, err := net.Dial("tcp", o.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		defer nc.Close()
		b.ReportAllocs()
		for b.Loop() {
			_ = nc.SetWriteDeadline(time.Now().Add(time.Second))
			if _, err := nc.Write(request); err != nil {
				b.Fatal(err)
			}
			_ = nc.SetReadDeadline(time.Now().Add(time.Second))
			if _, err := nc.Read(into); err != nil {
				b.Fatal(err)
			}
		}
	})
}
