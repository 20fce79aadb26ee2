package server

import (
	"crypto/tls"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
	"github.com/fastlimit/fastlimit/internal/testkit/streams"
)

// The corpus through TLS: what must be refused is, nothing behind it is answered, and as
// many requests are admitted as without TLS.
func TestCorpusThroughTLS(t *testing.T) {
	t.Parallel()
	files := redistest.NewCertificate(t, time.Now().Add(time.Hour))
	secure := start(t, generous(), func(c *Config) {
		c.Listeners[0].TLS = &TLS{CertFile: files.CertFile, KeyFile: files.KeyFile}
		c.Connections.Max, c.Connections.MaxPerClient = 4000, 4000
	})
	client := &tls.Config{InsecureSkipVerify: true} // the certificate is not what is tested
	items := make(chan streams.Item)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for it := range items {
				c := tls.Client(dial(t, secure.addr), client)
				go func() { // it may be answered before it has been read
					_, _ = io.WriteString(c, it.Stream)
					_ = c.CloseWrite()
				}()
				answers, _ := io.ReadAll(c) // a reset ends it too
				c.Close()
				if got := countOKs(statusesIn(answers)); got > it.OKs || got < it.OKs && !it.Body && len(it.Stream) < 60<<10 {
					t.Errorf("%s: %d of %d are admitted: %.200q", it.Name, got, it.OKs, it.Stream)
				}
			}
		})
	}
	for i, it := range streams.Corpus() {
		if testing.Short() && i%10 > 0 {
			continue
		}
		items <- it
	}
	close(items)
	all.Wait()
}
