package front

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/fastlimit/fastlimit/internal/rls/env"
	"google.golang.org/grpc/credentials"
)

// credentialsOf reads the files of TLS. The certificate is read again for each connection:
// those of Envoy last for hours.
func credentialsOf(t env.TLS, log *slog.Logger) (credentials.TransportCredentials, error) {
	first, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY: %w", err)
	}
	var last atomic.Pointer[tls.Certificate]
	last.Store(&first)
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil { // being replaced
			log.Warn("the certificate cannot be read: the last one stays", slog.Any("error", err))
			return last.Load(), nil
		}
		last.Store(&cert)
		return &cert, nil
	}}
	if t.ClientCA != "" {
		pem, err := os.ReadFile(t.ClientCA)
		if err != nil {
			return nil, fmt.Errorf("GRPC_CLIENT_TLS_CACERT: %w", err)
		}
		cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if !cfg.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("GRPC_CLIENT_TLS_CACERT: %s contains no certificate", t.ClientCA)
		}
		if t.ClientSAN != "" {
			cfg.VerifyConnection = func(s tls.ConnectionState) error { return s.PeerCertificates[0].VerifyHostname(t.ClientSAN) }
		}
	}
	return credentials.NewTLS(cfg), nil
}
