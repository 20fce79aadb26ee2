package xds

import (
	"crypto/tls"
	"fmt"

	"github.com/fastlimit/fastlimit/internal/certs"
	"github.com/fastlimit/fastlimit/internal/namedfile"
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
		var err error
		if cfg.RootCAs, err = certs.Authorities(t.CAFile); err != nil {
			return nil, err
		}
	}
	if t.CertFile != "" {
		pair, err := certs.Read(namedfile.ReadFile, t.CertFile, t.KeyFile)
		if err != nil {
			return nil, err
		}
		cfg.Certificates = []tls.Certificate{*pair}
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
