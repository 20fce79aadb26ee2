package redisstore

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit/internal/field"
)

// Validate returns everything that is wrong, joined, each as a
// FieldError of package fastlimit. readFile reads certificates; nil leaves them unread.
// No message contains the URL: it may hold a password.
func (c Config) Validate(readFile func(path string) ([]byte, error)) error {
	bad := &report{}
	c.validateServer(bad)
	c.validateSentinel(bad)
	c.validateNumbers(bad)
	c.validateTLS(bad)
	if readFile != nil {
		c.certificates(bad, readFile)
	}
	return errors.Join(bad.errs...)
}

// report collects what is wrong.
type report struct{ errs []error }

func (r *report) add(name, problem, fix string) {
	r.errs = append(r.errs, &field.Error{Package: "fastlimit/redisstore", Field: name, Problem: problem, Fix: fix})
}

func (c *Config) validateServer(bad *report) {
	switch {
	case c.URL == "" && len(c.Addrs) == 0:
		bad.add("URL", "no server", "set URL or Addrs")
	case c.URL != "" && len(c.Addrs) > 0:
		bad.add("Addrs", "URL is set too", "remove one of the two")
	case c.MasterName != "" && len(c.Addrs) == 0:
		bad.add("MasterName", "needs addresses, of the sentinels", "set addresses instead of a URL")
	case len(c.Addrs) > 1 && c.single():
		bad.add("Addrs", fmt.Sprintf("%d addresses of one server", len(c.Addrs)),
			"set master_name for sentinels, cluster: true for nodes of a cluster, or remove all but one")
	}
	if c.MasterName != "" && c.Cluster {
		bad.add("Cluster", "true beside master_name", "Sentinel and Cluster exclude each other: remove one")
	}
	if c.URL != "" {
		u, problem := parseURL(c.URL)
		switch {
		case problem != "":
			bad.add("URL", problem, urlFix)
		case c.Cluster && u.database != 0:
			bad.add("Cluster", "a cluster has only database 0, and the URL names another", "remove the database from the URL")
		}
	}
	switch {
	case c.DB < 0 || c.DB > maxDatabase:
		bad.add("DB", fmt.Sprintf("%d is not the number of a database", c.DB), "write for example 0")
	case c.Cluster && c.DB != 0:
		bad.add("DB", "a cluster has only database 0", "remove it")
	}
}

func (c *Config) validateSentinel(bad *report) {
	const problem, fix = "needs master_name: it is for sentinels", "set master_name, or remove it"
	if c.SentinelUsername != "" && c.MasterName == "" {
		bad.add("SentinelUsername", problem, fix)
	}
	if c.SentinelPassword != "" && c.MasterName == "" {
		bad.add("SentinelPassword", problem, fix)
	}
	if c.SentinelUsername != "" && c.SentinelPassword == "" {
		bad.add("SentinelUsername", "has no password beside it", "set sentinel_password or sentinel_password_file")
	}
}

func (c *Config) validateNumbers(bad *report) {
	within := func(name string, v, most int) {
		if v < 0 || v > most {
			bad.add(name, fmt.Sprintf("%d is out of range", v), fmt.Sprintf("want 1 to %d, or 0 for the default", most))
		}
	}
	within("Workers", c.Workers, MaxWorkers)
	within("Queue", c.Queue, MaxQueue)
	span := func(name string, d time.Duration) {
		if d < 0 || d > maxSpan {
			bad.add(name, d.String()+" is out of range", "want 0 to 1m")
		}
	}
	span("Timeout", c.Timeout)
	span("RetryMin", c.RetryMin)
	span("RetryMax", c.RetryMax)
	switch least, most := cmp.Or(c.RetryMin, firstRetry), cmp.Or(c.RetryMax, longestRetry); {
	case least <= most:
	case c.RetryMax != 0:
		bad.add("RetryMax", fmt.Sprintf("%v is below retry_min, which is %v", most, least), "raise it, or lower retry_min")
	default:
		bad.add("RetryMin", fmt.Sprintf("%v is above retry_max, which is %v", least, most), "lower it, or raise retry_max")
	}
}

func (c *Config) validateTLS(bad *report) {
	named := c.URL != "" || len(c.Addrs) > 0
	if named && c.ServerName != "" && !c.usesTLS() {
		bad.add("ServerName", "has no meaning without TLS", "set tls: true, or write rediss:// in the URL")
	}
	switch {
	case c.CertFile != "" && c.KeyFile == "":
		bad.add("CertFile", "has no key_file beside it", "set key_file to the key of the certificate")
	case c.CertFile == "" && c.KeyFile != "":
		bad.add("KeyFile", "has no cert_file beside it", "set cert_file to the certificate of the key")
	}
}

// usesTLS tells whether connections are encrypted.
func (c *Config) usesTLS() bool {
	return c.TLS || c.CAFile != "" || c.CertFile != "" || strings.HasPrefix(c.URL, "rediss:")
}

// certificates reads the files that are named, and reports those that cannot be
// used.
func (c *Config) certificates(bad *report, readFile func(path string) ([]byte, error)) (ca *x509.CertPool, client []tls.Certificate) {
	read := func(name, path string) []byte {
		if path == "" {
			return nil
		}
		b, err := readFile(path)
		if pe, ok := errors.AsType[*fs.PathError](err); ok {
			err = pe.Err
		}
		if err != nil {
			bad.add(name, fmt.Sprintf("%q %v", path, err), "name a file that can be read")
			return nil
		}
		return b
	}
	const pem = "name a file in PEM format, which begins with -----BEGIN CERTIFICATE-----"
	known := len(bad.errs)
	roots, cert, key := read("CAFile", c.CAFile), read("CertFile", c.CertFile), read("KeyFile", c.KeyFile)
	if len(bad.errs) > known {
		return nil, nil
	}
	if c.CAFile != "" {
		if ca = x509.NewCertPool(); !ca.AppendCertsFromPEM(roots) {
			bad.add("CAFile", fmt.Sprintf("%q holds no certificate", c.CAFile), pem)
		}
	}
	if c.CertFile != "" && c.KeyFile != "" {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			bad.add("CertFile", "cannot be used with key_file: "+strings.TrimPrefix(err.Error(), "tls: "), "name a certificate and its own key, both in PEM format")
		}
		client = []tls.Certificate{pair}
	}
	return ca, client
}
