package xds

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/fastlimit/fastlimit/internal/rls/api"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// TLS is how a connection is encrypted. Each field may be empty.
type TLS struct {
	CAFile            string // default: the system's authorities
	CertFile, KeyFile string // what this side shows
	ServerName        string // default: the host
}

// credentials reads the files. Of nil it is no encryption.
func (t *TLS) credentials() (credentials.TransportCredentials, error) {
	if t == nil {
		return insecure.NewCredentials(), nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New(t.CAFile + " contains no certificate")
		}
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, err
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(cfg), nil
}

// resource unpacks a resource. Its type is checked by name: Envoy's messages have no place in
// this program's registry.
func resource(r *anypb.Any) (*api.RateLimitConfig, error) {
	if r.GetTypeUrl() != typeURL {
		return nil, fmt.Errorf("type %q: want %s", r.GetTypeUrl(), typeURL)
	}
	m := new(api.RateLimitConfig)
	return m, proto.Unmarshal(r.GetValue(), m)
}
