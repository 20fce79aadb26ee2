//go:build !windows

package server

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// entrance is a kind of listener, and how its clients connect.
type entrance struct {
	change func(t *testing.T, l *Listener)
	dial   func(t *testing.T, network, addr string) net.Conn
}

// entrances are all kinds but the plain one.
var entrances = map[string]entrance{
	"unix":             {bePath, dialPlain},
	"TLS":              {beTLS, dialSecure("")},
	"PROXY":            {beProxied, dialBehind},
	"PROXY, TLS":       {func(t *testing.T, l *Listener) { beTLS(t, l); beProxied(t, l) }, dialSecure(proxyHeader)},
	"unix, PROXY":      {func(t *testing.T, l *Listener) { bePath(t, l); beProxied(t, l) }, dialBehind},
	"unix, PROXY, TLS": {func(t *testing.T, l *Listener) { bePath(t, l); beTLS(t, l); beProxied(t, l) }, dialSecure(proxyHeader)},
}

const proxyHeader = "PROXY TCP4 192.0.2.1 10.0.0.1 12345 80\r\n"

func bePath(t *testing.T, l *Listener) {
	l.Address = "unix:" + filepath.Join(testkit.ShortDir(t), "s")
}

func beTLS(t *testing.T, l *Listener) {
	files := redistest.NewCertificate(t, time.Now().Add(time.Hour))
	l.TLS = &TLS{CertFile: files.CertFile, KeyFile: files.KeyFile}
}

func beProxied(_ *testing.T, l *Listener) { l.ProxyProtocol = loopback() }

func dialPlain(t *testing.T, network, addr string) net.Conn {
	c, err := net.Dial(network, strings.TrimPrefix(addr, "unix:"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(2 * time.Minute))
	return c
}

func dialBehind(t *testing.T, network, addr string) net.Conn {
	c := dialPlain(t, network, addr)
	io.WriteString(c, proxyHeader)
	return c
}

func dialSecure(header string) func(t *testing.T, network, addr string) net.Conn {
	return func(t *testing.T, network, addr string) net.Conn {
		c := dialPlain(t, network, addr)
		io.WriteString(c, header)
		return tls.Client(c, &tls.Config{InsecureSkipVerify: true}) // the certificate is not what is tested
	}
}

// On any listener, a client that hangs up gives up its slot, however much it has sent behind the request that
// waits; and of one that stays no byte is lost.
func TestWaitOnEverySocket(t *testing.T) {
	t.Parallel()
	for kind, in := range entrances {
		for way, request := range ways {
			t.Run(kind+" "+way, func(t *testing.T) {
				t.Parallel()
				set := waitRule(1)
				set.Rules[0].Limit.Rate.Per = 100 * time.Millisecond
				s := start(t, set, func(c *Config) { in.change(t, &c.Listeners[0]) })
				at := s.Addrs()[0]
				stays := in.dial(t, at.Network(), at.String())
				const n = 12
				io.WriteString(stays, strings.Repeat(request, n-1)+request[:20])
				s.waiting(t, 1)
				io.WriteString(stays, request[20:])
				if codes, _ := answers(t, stays, n); fmt.Sprint(codes) != "["+strings.TrimSpace(strings.Repeat("200 ", n))+"]" {
					t.Errorf("%v", codes)
				}
				if w := s.waits(); w.Waiting != 0 || w.Admitted == 0 || w.Left+w.Denied+w.Refused != 0 {
					t.Errorf("%+v", w)
				}
			})
			t.Run(kind+" "+way+" leaves", func(t *testing.T) {
				t.Parallel()
				s := start(t, waitRule(1), func(c *Config) { in.change(t, &c.Listeners[0]) })
				at := s.Addrs()[0]
				var all []net.Conn
				for i := range 4 {
					c := in.dial(t, at.Network(), at.String())
					behind := 0
					if i == 2 && runtime.GOOS == "linux" { // elsewhere it is not noticed behind so much
						behind = 20 << 10
					}
					io.WriteString(c, request+strings.Repeat(request, behind/len(request)))
					if i == 0 {
						answers(t, c, 1)
						io.WriteString(c, request)
					}
					s.waiting(t, int64(i+1))
					all = append(all, c)
				}
				for gone, i := range []int{2, 0, 3, 1} {
					all[i].Close()
					s.waiting(t, int64(3-gone))
				}
				if w := s.waits(); w.Left < 4 || w != (fastlimit.WaitStats{Left: w.Left}) {
					t.Errorf("%+v", w)
				}
				eventually(t, func() bool { return s.conns.Open() == 0 })
			})
		}
	}
}
