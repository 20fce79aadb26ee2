package planetest

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// mutual is how a plane speaks TLS with one certificate, to who shows another one.
func mutual(t *testing.T, own, other redistest.Certificate) grpc.ServerOption {
	t.Helper()
	server, _ := own.Configs(t)
	text, err := os.ReadFile(other.CertFile)
	must(t, err)
	server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	server.ClientCAs.AppendCertsFromPEM(text)
	return grpc.Creds(credentials.NewTLS(server))
}

// replace puts the files of a certificate in the place of another one's.
func replace(t *testing.T, old, by redistest.Certificate) {
	t.Helper()
	must(t, os.Rename(by.CertFile, old.CertFile))
	must(t, os.Rename(by.KeyFile, old.KeyFile))
}

// TestCertificatesAreReplaced: the program and the control plane know each other by
// certificates, which are read again for each connection. While they do not fit, the limits
// stay.
func TestCertificatesAreReplaced(t *testing.T) {
	t.Parallel()
	certificate := func() redistest.Certificate { return redistest.NewCertificate(t, time.Now().Add(time.Hour)) }
	authority, shown := certificate(), certificate()
	addr := testkit.FreeAddr(t)
	old := newPlane(t, addr, mutual(t, authority, shown))
	r := startUp(t, addr, "CONFIG_GRPC_XDS_SERVER_USE_TLS=true", "CONFIG_GRPC_XDS_SERVER_TLS_CACERT="+authority.CertFile,
		"CONFIG_GRPC_XDS_CLIENT_TLS_CERT="+shown.CertFile, "CONFIG_GRPC_XDS_CLIENT_TLS_KEY="+shown.KeyFile, "CONFIG_GRPC_XDS_SERVER_TLS_SAN=127.0.0.1")
	c := r.dial()
	old.put(good(100))
	old.server.Stop()
	r.waitLog("no stream of limits")

	laterAuthority, laterShown := certificate(), certificate()
	later := newPlane(t, addr, mutual(t, laterAuthority, laterShown))
	later.set(good(200))
	r.waitLog("certificate signed by unknown authority")
	if got := c.left("user", "a"); got != 99 {
		t.Errorf("%d left while certificates do not fit, want 99", got)
	}
	replace(t, authority, laterAuthority)
	r.waitLog("remote error: tls") // the plane does not know who asks
	if len(later.asked) > 0 {
		t.Error("the plane was asked by one with an old certificate")
	}
	replace(t, shown, laterShown)
	if first := later.next(); first.GetNode().GetId() != node {
		t.Errorf("asked by %v", first)
	}
	if got := later.next(); got.GetVersionInfo() != "1" || got.GetErrorDetail() != nil {
		t.Errorf("the world of the plane with new certificates is answered with %v", got)
	}
	if got := c.left("user", "a"); got != 198 {
		t.Errorf("%d left with new certificates, want 198", got)
	}
}
