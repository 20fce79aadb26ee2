package server

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"

	"net/http"

	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// withTLS gives the first listener a certificate.
func withTLS(t testing.TB) func(*Config) {
	files := redistest.NewCertificate(t, time.Now().Add(time.Hour))
	return func(c *Config) { c.Listeners[0].TLS = &TLS{CertFile: files.CertFile, KeyFile: files.KeyFile} }
}

// httpsClient is a client of one connection that speaks HTTP/2, or HTTP/1.1 only.
func httpsClient(t testing.TB, http2 bool) *http.Client {
	tr := &http.Transport{DisableCompression: true, MaxConnsPerHost: 1, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the certificate is not what is tested
	tr.Protocols = new(http.Protocols)
	tr.Protocols.SetHTTP2(http2)
	tr.Protocols.SetHTTP1(!http2)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 30 * time.Second}
}

// shownAnswer is all of an answer that a client sees but for its version and time.
type shownAnswer struct {
	status int
	fields string
	body   string
}

func outcomeOf(t testing.TB, c *http.Client, req *http.Request) shownAnswer {
	t.Helper()
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	resp.Header.Del("Date")
	var fields bytes.Buffer
	_ = resp.Header.Write(&fields)
	fmt.Fprintf(&fields, "length %d, trailers %v", resp.ContentLength, resp.Trailer)
	return shownAnswer{resp.StatusCode, fields.String(), string(body)}
}
