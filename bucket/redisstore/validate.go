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

// Validate returns everything that is wrong, joined, each as a FieldError of
// package fastlimit. readFile reads certificates; nil leaves them unread. No
// message contains the URL, which may hold a password
// (TestURLErrorsHideThePassword).
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

// report collects problems.
type report struct{ errs []error }

func (r *report) when(wrong bool, name, problem, fix string) {
	if wrong {
		r.errs = append(r.errs, &field.Error{Package: "fastlimit/redisstore", Field: name, Problem: problem, Fix: fix})
	}
}

func (c *Config) validateServer(bad *report) {
	n, byURL, sentinel := len(c.Addrs), c.URL != "", c.MasterName != ""
	bad.when(!byURL && n == 0, "URL", "no server", "set URL or Addrs")
	bad.when(byURL && n > 0, "Addrs", "URL is set too", "remove one of the two")
	bad.when(byURL && n == 0 && sentinel, "MasterName", "needs addresses, of the sentinels", "set addresses instead of a URL")
	bad.when(!byURL && n > 1 && c.oneServer(), "Addrs", fmt.Sprintf("%d addresses of one server", n),
		"set master_name for sentinels, cluster: true for nodes of a cluster, or remove all but one")
	bad.when(sentinel && c.Cluster, "Cluster", "true together with master_name", "Sentinel and Cluster exclude each other: remove one")
	if byURL {
		o, problem := parseURL(c.URL)
		bad.when(problem != "", "URL", problem, urlFix)
		bad.when(problem == "" && c.Cluster && o.DB != 0, "Cluster", "a cluster has only database 0, and the URL names another", "remove the database from the URL")
	}
	outside := c.DB < 0 || c.DB > maxDatabase
	bad.when(outside, "DB", fmt.Sprintf("%d is not the number of a database", c.DB), "write for example 0")
	bad.when(!outside && c.Cluster && c.DB != 0, "DB", "a cluster has only database 0", "remove it")
}

func (c *Config) validateSentinel(bad *report) {
	const problem, fix = "needs master_name: it is for sentinels", "set master_name, or remove it"
	bad.when(c.SentinelUsername != "" && c.MasterName == "", "SentinelUsername", problem, fix)
	bad.when(c.SentinelPassword != "" && c.MasterName == "", "SentinelPassword", problem, fix)
	bad.when(c.SentinelUsername != "" && c.SentinelPassword == "", "SentinelUsername",
		"is set without a password", "set sentinel_password or sentinel_password_file")
}

func (c *Config) validateNumbers(bad *report) {
	count := func(name string, v, most int) {
		bad.when(v < 0 || v > most, name, fmt.Sprintf("%d is out of range", v), fmt.Sprintf("want 1 to %d, or 0 for the default", most))
	}
	count("Workers", c.Workers, MaxWorkers)
	count("Queue", c.Queue, MaxQueue)
	span := func(name string, d time.Duration) {
		bad.when(d < 0 || d > maxDuration, name, d.String()+" is out of range", "want 0 to 1m")
	}
	span("Timeout", c.Timeout)
	span("RetryMin", c.RetryMin)
	span("RetryMax", c.RetryMax)
	least, most := cmp.Or(c.RetryMin, shortestRetry), cmp.Or(c.RetryMax, longestRetry)
	bad.when(least > most && c.RetryMax != 0, "RetryMax", fmt.Sprintf("%v is below retry_min, which is %v", most, least), "raise it, or lower retry_min")
	bad.when(least > most && c.RetryMax == 0, "RetryMin", fmt.Sprintf("%v is above retry_max, which is %v", least, most), "lower it, or raise retry_max")
}

func (c *Config) validateTLS(bad *report) {
	named := c.URL != "" || len(c.Addrs) > 0
	bad.when(named && c.ServerName != "" && !c.usesTLS(), "ServerName", "has no meaning without TLS", "set tls: true, or write rediss:// in the URL")
	bad.when(c.CertFile != "" && c.KeyFile == "", "CertFile", "is set without key_file", "set key_file to the key of the certificate")
	bad.when(c.CertFile == "" && c.KeyFile != "", "KeyFile", "is set without cert_file", "set cert_file to the certificate of the key")
}

// usesTLS reports whether connections are encrypted.
func (c *Config) usesTLS() bool {
	return c.TLS || c.CAFile != "" || c.CertFile != "" || strings.HasPrefix(c.URL, "rediss:")
}

// certificates reads the files that the configuration names and reports those
// that cannot be used.
func (c *Config) certificates(bad *report, readFile func(path string) ([]byte, error)) (ca *x509.CertPool, client []tls.Certificate) {
	readable := true
	read := func(name, path string) []byte {
		if path == "" {
			return nil
		}
		b, err := readFile(path)
		if pe, ok := errors.AsType[*fs.PathError](err); ok {
			err = pe.Err
		}
		readable = readable && err == nil
		bad.when(err != nil, name, fmt.Sprintf("%q %v", path, err), "name a file that can be read")
		return b
	}
	roots, cert, key := read("CAFile", c.CAFile), read("CertFile", c.CertFile), read("KeyFile", c.KeyFile)
	if !readable {
		return nil, nil
	}
	if c.CAFile != "" {
		ca = x509.NewCertPool()
		bad.when(!ca.AppendCertsFromPEM(roots), "CAFile", fmt.Sprintf("%q contains no certificate", c.CAFile),
			"name a file in PEM format, which begins with -----BEGIN CERTIFICATE-----")
	}
	if c.CertFile != "" && c.KeyFile != "" {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			bad.when(true, "CertFile", "cannot be used with key_file: "+strings.TrimPrefix(err.Error(), "tls: "),
				"name a certificate and its own key, both in PEM format")
		}
		client = []tls.Certificate{pair}
	}
	return ca, client
}
