// Package certs reads certificates in PEM, and holds a listener's while its files change. A certificate and
// its key are two files and one pair here: either a new pair is complete, or the old one stays. So the order
// in which they are written does not matter, nor when they are checked in between.
package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/internal/namedfile"
)

// Problem is what is wrong with a pair of files.
type Problem struct {
	Key  bool // about the key, else about the certificate
	File string
	Err  error
}

// Error implements error.
func (p *Problem) Error() string { return fmt.Sprintf("%q %v", p.File, p.Err) }

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Err }

// Read makes a pair of two files. Its error is a *[Problem].
func Read(readFile func(path string) ([]byte, error), certFile, keyFile string) (*tls.Certificate, error) {
	cert, err := readFile(certFile)
	if err != nil {
		return nil, &Problem{false, certFile, err}
	}
	key, err := readFile(keyFile)
	if err != nil {
		return nil, &Problem{true, keyFile, err}
	}
	block, _ := pem.Decode(cert)
	if block == nil {
		return nil, &Problem{false, certFile, errors.New("contains no certificate in PEM")}
	}
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		return nil, &Problem{false, certFile, fmt.Errorf("contains no certificate: %w", err)}
	}
	if block, _ := pem.Decode(key); block == nil {
		return nil, &Problem{true, keyFile, errors.New("contains no key in PEM")}
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, &Problem{true, keyFile, fmt.Errorf("does not fit the certificate: %w", err)}
	}
	return &pair, nil
}

// Authorities reads a file of certificates to verify others with.
func Authorities(file string) (*x509.CertPool, error) {
	content, err := namedfile.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%q %w", file, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("%q contains no certificate in PEM", file)
	}
	return pool, nil
}

// Store is a pair that follows its files. Get and Look are safe for concurrent use.
type Store struct {
	certFile, keyFile string
	log               *slog.Logger
	current           atomic.Pointer[tls.Certificate]

	mu       sync.Mutex
	seen     [2]fs.FileInfo // of the files last read, with or without success
	failed   bool           // they are not a valid pair
	reported bool           // and that has been logged
	expired  bool           // that current has expired has been logged
}

// Open reads the pair for the first time.
func Open(certFile, keyFile string, log *slog.Logger) (*Store, error) {
	s := &Store{certFile: certFile, keyFile: keyFile, log: log, seen: look(certFile, keyFile)}
	pair, err := Read(namedfile.ReadFile, certFile, keyFile)
	if err != nil {
		return nil, err
	}
	s.current.Store(pair)
	return s, nil
}

// Get is for [tls.Config].GetCertificate.
func (s *Store) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.current.Load(), nil }

// NotAfter is when the certificate in use expires.
func (s *Store) NotAfter() time.Time { return s.current.Load().Leaf.NotAfter }

// Look reads the files again if they have changed, or if anyway is set. It is called once a second or for each
// handshake. A failure is logged once, and only after the same files have been seen twice: they may be about to
// be replaced, one after the other.
func (s *Store) Look(anyway bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := look(s.certFile, s.keyFile)
	if anyway || !same(seen, s.seen) {
		s.reported = false
	} else if !s.failed || s.reported {
		s.watch(now)
		return
	}
	again := anyway || same(seen, s.seen)
	s.seen = seen
	pair, err := Read(namedfile.ReadFile, s.certFile, s.keyFile)
	s.failed = err != nil
	switch old := s.current.Load(); {
	case err != nil && again:
		s.reported = true
		s.log.Error("the certificate was not replaced: the files do not match; the old one stays in use",
			slog.String("cert_file", s.certFile), slog.String("key_file", s.keyFile), slog.String("error", err.Error()))
	case err != nil: // try again next time
	case !bytes.Equal(old.Certificate[0], pair.Certificate[0]):
		s.expired = false
		s.log.Info("the certificate was replaced", slog.String("cert_file", s.certFile), slog.Time("not_after", pair.Leaf.NotAfter))
		s.current.Store(pair)
	default: // another chain, or nothing new
		s.current.Store(pair)
	}
	s.watch(now)
}

// watch logs once that the certificate has expired.
func (s *Store) watch(now time.Time) {
	if after := s.NotAfter(); !s.expired && now.After(after) {
		s.expired = true
		s.log.Warn("the certificate has expired, so clients refuse it; replace its files", slog.String("cert_file", s.certFile), slog.Time("not_after", after))
	}
}

func look(certFile, keyFile string) [2]fs.FileInfo {
	return [2]fs.FileInfo{namedfile.Look(certFile), namedfile.Look(keyFile)}
}

func same(a, b [2]fs.FileInfo) bool { return namedfile.Same(a[0], b[0]) && namedfile.Same(a[1], b[1]) }
