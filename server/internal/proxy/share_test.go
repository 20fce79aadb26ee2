package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// from has a client connect from an address, with at most so many connections.
func from(client *http.Client, address string, connections int) *http.Client {
	tr := client.Transport.(*http.Transport) // made here
	d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return d.DialContext(ctx, network, addr)
	}
	tr.MaxConnsPerHost = connections
	client.Timeout = 0
	return client
}

func client1() *http.Client { return &http.Client{Transport: new(http.Transport)} }

// One client that asks for a slow page, with as many requests as it can make, takes four
// fifths of the connections. Others get the rest, over both protocols.
func TestOneClientLeavesConnections(t *testing.T) {
	t.Parallel()
	const connections, hostile = 10, 100
	for name, tt := range map[string]struct {
		change  func(*standOptions)
		client  func() *http.Client
		scheme  string
		hostile int    // connections
		other   string // address of the next client's connection
	}{
		"HTTP/1": {func(*standOptions) {}, client1, "http", hostile, "127.0.0.3"},
		"HTTP/2": {overHTTP2(t), func() *http.Client { return client2(t) }, "https", 2, "127.0.0.3"},
		"behind a proxy": {func(o *standOptions) {
			o.settings.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}
		}, client1, "http", hostile, "127.0.0.2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			addr := serveHTTP(t, func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/slow" {
					<-release
				}
			})
			s := start(t, func(o *standOptions) { tt.change(o); o.pool.MaxConnections = connections }, addr)
			hog, other := from(tt.client(), "127.0.0.2", tt.hostile), from(tt.client(), tt.other, 0)
			get := func(client *http.Client, path, forwarded string) error {
				ctx, stop := context.WithTimeout(context.Background(), time.Minute)
				defer stop()
				req, _ := http.NewRequestWithContext(ctx, http.MethodGet, tt.scheme+"://"+s.addr+path, http.NoBody)
				req.Header.Set("X-Forwarded-For", forwarded)
				resp, err := client.Do(req)
				if err == nil {
					err = resp.Body.Close()
				}
				if err == nil && resp.StatusCode != http.StatusOK {
					err = errors.New(resp.Status)
				}
				return err
			}
			ended := make(chan error, hostile)
			for range hostile {
				go func() { ended <- get(hog, "/slow", "192.0.2.1") }()
			}
			redistest.Eventually(t, "all of them wait", func() bool {
				st := s.pool.Stats()
				return st.Servers[0].InUse == connections*4/5 && st.Queue == hostile-connections*4/5
			})
			for range 20 {
				if err := get(other, "/fast", "192.0.2.2"); err != nil {
					t.Error(err)
				}
			}
			close(release)
			for range hostile {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
			hog.CloseIdleConnections()
			other.CloseIdleConnections()
		})
	}
}
