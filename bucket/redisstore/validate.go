package redisstore

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/fastlimit/fastlimit/internal/field"
)

// Validate returns everything that is wrong, joined, each as a FieldError of
// package fastlimit. readFile reads certificates; nil leaves them unread. No
// message contains the URL, which may hold a password
// (TestURLErrorsHideThePassword).
func (c Config) Validate(readFile func(path string) ([]byte, error)) error {
	bad := &field.Report{Package: packageName}
	c.validateServer(bad)
	c.validateSentinel(bad)
	c.validateTLS(bad)
	if readFile != nil {
		c.certificates(bad, readFile)
	}
	return errors.Join(bad.Err(), c.shared().Validate(packageName))
}

func (c *Config) validateServer(bad *field.Report) {
	n, byURL, sentinel := len(c.Addrs), c.URL != "", c.MasterName != ""
	bad.When(!byURL && n == 0, "URL", "no server", "set URL or Addrs")
	bad.When(byURL && n > 0, "Addrs", "URL is set too", "remove one of the two")
	bad.When(byURL && n == 0 && sentinel, "MasterName", "needs addresses, of the sentinels", "set addresses instead of a URL")
	bad.When(!byURL && n > 1 && c.oneServer(), "Addrs", fmt.Sprintf("%d addresses of one server", n),
		"set master_name for sentinels, cluster: true for nodes of a cluster, or remove all but one")
	bad.When(sentinel && c.Cluster, "Cluster", "true together with master_name", "Sentinel and Cluster exclude each other: remove one")
	if byURL {
		o, problem := parseURL(c.URL)
		bad.When(problem != "", "URL", problem, urlFix)
		bad.When(problem == "" && c.Cluster && o.DB != 0, "Cluster", "a cluster has only database 0, and the URL names another", "remove the database from the URL")
	}
	outside := c.DB < 0 || c.DB > maxDatabase
	bad.When(outside, "DB", fmt.Sprintf("%d is not the number of a database", c.DB), "write for example 0")
	bad.When(!outside && c.Cluster && c.DB != 0, "DB", "a cluster has only database 0", "remove it")
}

func (c *Config) validateSentinel(bad *field.Report) {
	const problem, fix = "needs master_name: it is for sentinels", "set master_name, or remove it"
	bad.When(c.SentinelUsername != "" && c.MasterName == "", "SentinelUsername", problem, fix)
	bad.When(c.SentinelPassword != "" && c.MasterName == "", "SentinelPassword", problem, fix)
	bad.When(c.SentinelUsername != "" && c.SentinelPassword == "", "SentinelUsername",
		"is set without a password", "set sentinel_password or sentinel_password_file")
}

func (c *Config) validateTLS(bad *field.Report) {
	named := c.URL != "" || len(c.Addrs) > 0
	bad.When(named && c.ServerName != "" && !c.usesTLS(), "ServerName", "has no meaning without TLS", "set tls: true, or write rediss:// in the URL")
	bad.When(c.CertFile != "" && c.KeyFile == "", "CertFile", "is set without key_file", "set key_file to the key of the certificate")
	bad.When(c.CertFile == "" && c.KeyFile != "", "KeyFile", "is set without cert_file", "set cert_file to the certificate of the key")
}

// usesTLS reports whether connections are encrypted.
func (c *Config) usesTLS() bool {
	return c.TLS || c.CAFile != "" || c.CertFile != "" || strings.HasPrefix(c.URL, "rediss:")
}

// certificates reads the files that the configuration names and reports those
// that cannot be used.
func (c *Config) certificates(bad *field.Report, readFile func(path string) ([]byte, error)) (ca *x509.CertPool, client []tls.Certificate) {
	readable := true
	read := func(name, path string) []byte {
		if path == "" {
			return nil
		}
		b, err := readFile(path)
		readable = readable && err == nil
		bad.When(err != nil, name, fmt.Sprintf("%q %v", path, err), "name a file that can be read")
		return b
	}
	roots, cert, key := read("CAFile", c.CAFile), read("CertFile", c.CertFile), read("KeyFile", c.KeyFile)
	if !readable {
		return nil, nil
	}
	if c.CAFile != "" {
		ca = x509.NewCertPool()
		bad.When(!ca.AppendCertsFromPEM(roots), "CAFile", fmt.Sprintf("%q contains no certificate", c.CAFile),
			"name a file in PEM format, which begins with -----BEGIN CERTIFICATE-----")
	}
	if c.CertFile != "" && c.KeyFile != "" {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			bad.When(true, "CertFile", "cannot be used with key_file: "+strings.TrimPrefix(err.Error(), "tls: "),
				"name a certificate and its own key, both in PEM format")
		}
		client = []tls.Certificate{pair}
	}
	return ca, client
}
