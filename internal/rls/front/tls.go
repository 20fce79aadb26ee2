package front

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/fastlimit/fastlimit/internal/certs"
	"github.com/fastlimit/fastlimit/internal/rls/env"
	"google.golang.org/grpc/credentials"
)

// credentialsOf reads the files of TLS. Each handshake looks whether the certificate has been replaced: those
// of Envoy last for hours.
func credentialsOf(t env.TLS, log *slog.Logger) (credentials.TransportCredentials, error) {
	pair, err := certs.Open(t.CertFile, t.KeyFile, log)
	if err != nil {
		return nil, fmt.Errorf("fastlimit/rls: GRPC_SERVER_TLS_CERT, GRPC_SERVER_TLS_KEY: %w: name a certificate and its key, both in PEM", err)
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair.Look(false, time.Now())
		return pair.Get(hello)
	}}
	if t.ClientCA != "" {
		if cfg.ClientCAs, err = certs.Authorities(t.ClientCA); err != nil {
			return nil, fmt.Errorf("fastlimit/rls: GRPC_CLIENT_TLS_CACERT: %w: name certificates in PEM", err)
		}
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
		if t.ClientSAN != "" {
			cfg.VerifyConnection = func(s tls.ConnectionState) error { return s.PeerCertificates[0].VerifyHostname(t.ClientSAN) }
		}
	}
	return credentials.NewTLS(cfg), nil
}
