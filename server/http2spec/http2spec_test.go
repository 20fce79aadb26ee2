package http2spec

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"encoding/xml"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server"
	"github.com/summerwind/h2spec"
	"github.com/summerwind/h2spec/config"
)

// exceptions are the cases that may fail, as net/http itself decides: it ends the connection
// for settings that come twice, and may answer the other two with a status of 400 where the
// RFC wants the stream reset. Nothing is forwarded.
var exceptions = map[string]bool{
	"Sends multiple values of SETTINGS_INITIAL_WINDOW_SIZE":                                          true,
	"Sends a HEADERS frame that contains the connection-specific header field":                       true,
	"Sends a HEADERS frame that contains the TE header field with any value other than \"trailers\"": true,
}

// All cases of h2spec pass but the exceptions, the strict ones included. Requests go to an
// application that answers at their end: an answer that came earlier would end a stream before
// the frames of a case have arrived.
func TestH2Spec(t *testing.T) {
	addr := serve(t)
	host, _, _ := net.SplitHostPort(addr.String())
	report := filepath.Join(t.TempDir(), "report.xml")
	_, err := h2spec.Run(&config.Config{
		Host: host, Port: addr.(*net.TCPAddr).Port, Path: "/", Timeout: 10 * time.Second, MaxHeaderLen: 4000,
		TLS: true, Insecure: true, Strict: true, JUnitReport: report,
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var suites struct {
		Suites []struct {
			Cases []struct {
				Name    string    `xml:"classname,attr"`
				Section string    `xml:"package,attr"`
				Failed  *struct{} `xml:"failure"`
				Error   *struct{} `xml:"error"`
				Skipped *struct{} `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(text, &suites); err != nil {
		t.Fatal(err)
	}
	passed, excepted := 0, 0
	for _, s := range suites.Suites {
		for _, c := range s.Cases {
			switch bad := c.Failed != nil || c.Error != nil || c.Skipped != nil; {
			case bad && exceptions[c.Name]:
				excepted++
			case bad:
				t.Errorf("%s: %s", c.Section, c.Name)
			default:
				passed++
			}
		}
	}
	if passed+excepted != 146 {
		t.Errorf("%d pass, and %d exceptions do not", passed, excepted)
	}
}

// serve is a reverse proxy with TLS until the test ends.
func serve(t *testing.T) net.Addr {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "hello")
	}))
	t.Cleanup(app.Close)
	set := policy.Settings{
		Rules: []policy.RuleSpec{{
			Limit: fastlimit.RuleConfig{Name: "r", Rate: fastlimit.Rate{N: 1000, Per: time.Second}, Burst: 1000}, Key: []policy.KeyPart{{Kind: policy.KeyIP}},
		}},
	}
	lim, err := fastlimit.New(fastlimit.Config{Rules: set.Limits()})
	must(t, err)
	engine, err := policy.New(lim, set)
	must(t, err)
	id, err := policy.NewIdentity(set)
	must(t, err)
	s, err := server.New(server.Config{
		Limiter: lim, Engine: engine, Identity: id, Logger: slog.New(slog.DiscardHandler),
		Upstream:  &server.Upstream{URLs: []string{app.URL}},
		Listeners: []server.Listener{{Address: "127.0.0.1:0", TLS: certificate(t)}},
	})
	must(t, err)
	must(t, s.Listen())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
	})
	return s.Addrs()[0]
}

func certificate(t *testing.T) *server.TLS {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	dir := t.TempDir()
	files := &server.TLS{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	must(t, os.WriteFile(files.CertFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600))
	must(t, os.WriteFile(files.KeyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	return files
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
