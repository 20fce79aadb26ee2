package server

import (
	"crypto/tls"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
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
	client := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the certificate is not what is tested
	items := make(chan item)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for it := range items {
				c := tls.Client(dial(t, secure.addr), client)
				go func() { // it may be answered before it has been read
					_, _ = io.WriteString(c, it.stream)
					_ = c.CloseWrite()
				}()
				answers, _ := io.ReadAll(c) // a reset ends it too
				c.Close()
				if got := countOKs(statusesIn(answers)); got > it.oks || got < it.oks && !it.body && len(it.stream) < 60<<10 {
					t.Errorf("%s: %d of %d are admitted: %.200q", it.name, got, it.oks, it.stream)
				}
			}
		})
	}
	for i, it := range corpus() {
		if testing.Short() && i%10 > 0 {
			continue
		}
		items <- it
	}
	close(items)
	all.Wait()
}
