package server

import (
	"net/http"
	"sync"
	"testing"
)

// What a request costs over TLS, by protocol, the client's part included: denied ones, over four
// connections of HTTP/1.1 or as many streams of one.
func BenchmarkTLS(b *testing.B) {
	for _, http2 := range []bool{false, true} {
		name := map[bool]string{false: "http1", true: "http2"}[http2]
		b.Run(name, func(b *testing.B) {
			s := start(b, daily(), withTLS(b))
			c := httpsClient(b, http2)
			c.Transport.(*http.Transport).MaxConnsPerHost = 4 // see httpsClient
			b.ReportAllocs()
			b.ResetTimer()
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					for range b.N / 4 {
						ask2(b, c, "GET", "https://"+s.addr+"/limited", "")
					}
				})
			}
			all.Wait()
		})
	}
}
