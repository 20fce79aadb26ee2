package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/fastlimit/fastlimit/internal/certs"
	"github.com/fastlimit/fastlimit/internal/field"
)

// TLS is the certificate of a listener. It speaks TLS 1.2 and 1.3, and in it HTTP/2 to clients that offer it
// by ALPN, and HTTP/1.1. The files are read again when they change; a certificate and a key that do not match
// change nothing.
type TLS struct {
	CertFile string // PEM, with the intermediate certificates
	KeyFile  string // PEM, not encrypted

	// NoHTTP2 leaves HTTP/2 out. A client that insists on it is refused in the handshake.
	NoHTTP2 bool
}

// Check reads the files and reports everything that is wrong with them, each a [fastlimit.FieldError], and
// probable mistakes. A nil readFile reads none.
func (t *TLS) Check(readFile func(path string) ([]byte, error), now time.Time) (warnings []string, err error) {
	var p problems
	p.require(t.CertFile != "", "CertFile", "name a file with the certificate in PEM")
	p.require(t.KeyFile != "", "KeyFile", "name a file with the key in PEM")
	if len(p) > 0 || readFile == nil {
		return nil, errors.Join(p...)
	}
	pair, err := certs.Read(readFile, t.CertFile, t.KeyFile)
	if err != nil {
		return nil, wrong(err)
	}
	switch leaf := pair.Leaf; {
	case now.After(leaf.NotAfter):
		warnings = append(warnings, fmt.Sprintf("tls: the certificate in %s expired on %s: clients refuse it", t.CertFile, leaf.NotAfter.Format(time.DateOnly)))
	case now.Before(leaf.NotBefore):
		warnings = append(warnings, fmt.Sprintf("tls: the certificate in %s is not valid before %s: clients refuse it until then", t.CertFile, leaf.NotBefore.Format(time.DateOnly)))
	}
	return warnings, nil
}

// wrong converts the error of a pair to one about a field.
func wrong(err error) error {
	e := &field.Error{Package: "fastlimit/server", Field: "CertFile", Problem: err.Error(), Fix: "name a file with the certificate in PEM, the chain behind it"}
	if p, ok := errors.AsType[*certs.Problem](err); ok && p.Key {
		e.Field, e.Fix = "KeyFile", "name the file with the key of this certificate in PEM, without a passphrase"
	}
	return e
}

// open reads the pair for a listener.
func (t *TLS) open(log *slog.Logger) (*certs.Store, error) {
	s, err := certs.Open(t.CertFile, t.KeyFile, log)
	if err != nil {
		return nil, wrong(err)
	}
	return s, nil
}

// tlsConfig is what a listener with a certificate offers. Versions, cipher suites, curves and session tickets
// are package tls's.
func tlsConfig(s *certs.Store, http2 bool) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1", "http/1.0"}, GetCertificate: s.Get}
	if http2 {
		c.NextProtos = append([]string{"h2"}, c.NextProtos...)
	}
	return c
}

// RereadCertificates reads the certificates of all listeners, whether their files have changed or not. If one
// is invalid, that is logged and the old one stays.
func (s *Server) RereadCertificates() { s.lookAtCertificates(true) }

func (s *Server) lookAtCertificates(anyway bool) {
	now := s.state.Load()
	for _, at := range now.open {
		if pair := now.places[at].pair; pair != nil {
			pair.Look(anyway, time.Now())
		}
	}
}

// expiry returns when the listeners' certificates expire, by their addresses in the configuration, in seconds
// since 1970.
func (s *Server) expiry() map[string]float64 {
	all := map[string]float64{}
	now := s.state.Load()
	for i, at := range now.open {
		if pair := now.places[at].pair; pair != nil {
			all[now.config.Listeners[i].Address] = float64(pair.NotAfter().Unix())
		}
	}
	return all
}
