package conn

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// tlsPair is what a server and a client need of one certificate.
func tlsPair(t testing.TB) (server, client *tls.Config) {
	t.Helper()
	server, client = redistest.NewCertificate(t, time.Now().Add(time.Hour)).Configs(t)
	server.NextProtos = []string{"http/1.1"}
	return server, client
}

// dialTLS shakes hands, behind a PROXY header in the same packet if there is one.
func dialTLS(t testing.TB, e *echo, source, header string, config *tls.Config) *tls.Conn {
	t.Helper()
	raw := dialFrom(t, source, e.addr)
	return tls.Client(&prefixed{raw, header}, config)
}

// prefixed sends something in front of the first write.
type prefixed struct {
	net.Conn
	first string
}

func (p *prefixed) Write(b []byte) (int, error) {
	n, err := p.Conn.Write(append([]byte(p.first), b...))
	n = max(0, n-len(p.first))
	p.first = ""
	return n, err
}

// The same requests get the same answers through TLS of both versions, behind a PROXY
// header or without.
func TestRequestsThroughTLS(t *testing.T) {
	t.Parallel()
	server, client := tlsPair(t)
	o := proxied("127.0.0.2")
	o.TLS = server
	e := startEcho(t, Limits{}, o)
	plain := startEcho(t, Limits{}, Options{})
	get := "GET /%d HTTP/1.1\r\nHost: a\r\n\r\n"
	for name, stream := range map[string]string{
		"many": strings.Repeat(fmt.Sprintf(get, 1), 300), "body": "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" + fmt.Sprintf(get, 2),
		"long": headOf(9000, "") + fmt.Sprintf(get, 3), "bad": fmt.Sprintf(get, 4) + "GET  /x HTTP/1.1\r\n\r\n" + fmt.Sprintf(get, 5), "nothing": "",
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			for source, header := range map[string]string{"127.0.0.2": header1, "127.0.0.3": ""} {
				config := client.Clone()
				config.MinVersion, config.MaxVersion = version, version
				c := dialTLS(t, e, source, header, config)
				for _, piece := range cut(stream, 2) {
					if _, err := c.Write(piece); err != nil {
						t.Fatalf("%s: %v", name, err)
					}
				}
				if err := c.Handshake(); err != nil {
					t.Fatal(err)
				}
				c.CloseWrite()
				got, _ := io.ReadAll(c)
				c.Close()
				from := source
				if header != "" {
					from = "192.0.2.1"
				}
				want := strings.ReplaceAll(plain.say(t, source, stream, 2), "\n"+source+" /", "\n"+from+" /")
				if stripped(string(got)) != stripped(want) {
					t.Errorf("%s, %s:\ngot  %.200q\nwant %.200q", name, tls.VersionName(version), got, want)
				}
			}
		}
	}
	for class, n := range e.conns.HandshakeErrors() {
		if n != 0 {
			t.Errorf("%d handshakes failed, class %s", n, class)
		}
	}
}

// Each way in which a handshake fails has a class, and ends the connection. Only HTTP
// without TLS is answered.
func TestHandshakeErrors(t *testing.T) {
	t.Parallel()
	server, client := tlsPair(t)
	shake := func(change func(*tls.Config)) func(net.Conn) {
		return func(c net.Conn) {
			config := client.Clone()
			change(config)
			_ = tls.Client(c, config).Handshake() // fails, as the counters say
		}
	}
	write := func(text string) func(net.Conn) {
		return func(c net.Conn) {
			io.WriteString(c, text)
			if got, _ := io.ReadAll(c); strings.HasPrefix(string(got), "HTTP/1.1 400 ") == strings.HasPrefix(text, "SSH") {
				t.Errorf("%q is answered %q", text, got)
			}
		}
	}
	for name, c := range map[string]struct {
		do    func(net.Conn)
		class string
	}{
		"HTTP":    {write("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), "not_tls"},
		"other":   {write("SSH-2.0-x\r\n"), "not_tls"},
		"HTTP/2":  {shake(func(c *tls.Config) { c.NextProtos = []string{"h2"} }), "alpn"},
		"TLS 1.1": {shake(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }), "version"},
		"RSA only": {shake(func(c *tls.Config) {
			c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}
		}), "parameters"},
		"distrust": {shake(func(c *tls.Config) { c.RootCAs = x509.NewCertPool() }), "refused"},
		"hangs up": {func(c net.Conn) { io.WriteString(c, "\x16\x03\x01\x02\x00\x01"); c.Close() }, "closed"},
		"at once":  {func(c net.Conn) { c.Close() }, "closed"},
		"broken": {func(c net.Conn) {
			io.WriteString(c, "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00")
			io.Copy(io.Discard, c)
		}, "protocol"},
		"slow":        {nil, "timeout"},
		"plain PROXY": {write(header1), "not_tls"},
	} {
		e := startEcho(t, Limits{}, Options{TLS: server})
		raw := dialFrom(t, "127.0.0.2", e.addr)
		if c.do != nil {
			c.do(raw)
			raw.Close()
		} else {
			io.WriteString(raw, "\x16")
			eventually(t, func() bool { return e.conns.Open() == 1 })
			age(e.conns, time.Hour)
			e.conns.sweep()
		}
		eventually(t, func() bool { return e.conns.Open() == 0 && e.conns.HandshakeErrors()[c.class] > 0 })
		for class, n := range e.conns.HandshakeErrors() {
			if (class == c.class) != (n == 1) || n > 1 {
				t.Errorf("%s: %d of class %s", name, n, class)
			}
		}
	}
}

// Clients that are silent before or in the handshake keep nobody waiting, and count to
// their address from accept on.
func TestSilentTLSClients(t *testing.T) {
	t.Parallel()
	server, client := tlsPair(t)
	e := startEcho(t, Limits{PerClient: 20}, Options{TLS: server})
	for i := range 40 {
		io.WriteString(dialFrom(t, "127.0.0.3", e.addr), "\x16\x03\x01"[:i%3])
	}
	eventually(t, func() bool { return e.conns.Dismissed()["client"] == 20 })
	c := dialTLS(t, e, "127.0.0.2", "", client)
	if ask(c) != 200 {
		t.Error("somebody else waits")
	}
	eventually(t, func() bool { return e.conns.Open() == 21 })
}

// A drain answers what has arrived by then, through TLS too, and ends connections that
// wait, in the handshake or for a request.
func TestDrainThroughTLS(t *testing.T) {
	t.Parallel()
	server, client := tlsPair(t)
	for range 20 {
		e := startEcho(t, Limits{}, Options{TLS: server})
		var asked, idle []*tls.Conn
		for i := range 8 {
			c := dialTLS(t, e, "127.0.0.2", "", client)
			if ask(c) != 200 {
				t.Fatal("no answer")
			}
			if i%2 == 0 {
				asked = append(asked, c)
			} else {
				idle = append(idle, c)
			}
		}
		silent := dialFrom(t, "127.0.0.2", e.addr)
		eventually(t, func() bool { return e.conns.Open() == 9 })
		for _, c := range asked {
			io.WriteString(c, "GET /last HTTP/1.1\r\nHost: a\r\n\r\n")
		}
		e.conns.LastAnswers()
		go func() { // an answer may be out before its connection waits again
			for e.conns.DismissQuiet(true) > 0 {
				time.Sleep(time.Millisecond)
			}
		}()
		for _, c := range asked {
			if got, err := io.ReadAll(c); err != nil || !strings.Contains(string(got), "/last") {
				t.Fatalf("a request is lost: %q %v", got, err)
			}
		}
		for _, c := range idle {
			if got, err := io.ReadAll(c); err != nil || len(got) > 0 { // without close_notify it is an error
				t.Fatalf("an idle connection ends with %q %v", got, err)
			}
		}
		if !hasEnded(silent) {
			t.Fatal("a connection without handshake stays")
		}
	}
}
