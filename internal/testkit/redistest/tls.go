//go:build linux

package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// TLS is a server that speaks TLS on a second port.
type TLS struct {
	*Server

	Certificate // which clients may show too

	TLSAddr string
}

// Certificate is a self-signed certificate for 127.0.0.1.
type Certificate struct{ CertFile, KeyFile string }

// NewCertificate writes one that is valid until notAfter.
func NewCertificate(t testkit.T, notAfter time.Time) Certificate {
	t.Helper()
	dir := t.TempDir()
	c := Certificate{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	writeCert(t, c.CertFile, c.KeyFile, notAfter)
	return c
}

// Configs are what a server and a client need of it, for 127.0.0.1.
func (c Certificate) Configs(t testkit.T) (server, client *tls.Config) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(c.CertFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	server = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	return server, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
}

// StartTLS starts one with a certificate that is valid until notAfter.
func StartTLS(t testkit.T, notAfter time.Time, args ...string) *TLS {
	t.Helper()
	s := &TLS{Certificate: NewCertificate(t, notAfter)}
	port := strconv.Itoa(testkit.FreePort(t))
	s.TLSAddr = "127.0.0.1:" + port
	s.Server = Start(t, append([]string{
		"--tls-port", port, "--tls-cert-file", s.CertFile, "--tls-key-file", s.KeyFile, "--tls-ca-cert-file", s.CertFile,
	}, args...)...)
	return s
}

func writeCert(t testkit.T, certFile, keyFile string, notAfter time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redistest"},
		NotBefore: notAfter.Add(-48 * time.Hour), NotAfter: notAfter,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
