package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Bounds of settings of redis; those of package redisstore are as wide.
const (
	maxRedisWorkers  = 64
	maxRedisQueue    = 1 << 20
	maxRedisDatabase = 1<<31 - 1
	minRedisRetry    = time.Millisecond
	maxRedisRetry    = time.Minute

	// What the store retries by unless told otherwise.
	firstRetry   = 100 * time.Millisecond
	longestRetry = 2 * time.Second

	redisURLFix = "write redis://host:6379/0, rediss://host:6379/0 for TLS, or unix:///path/to.sock"
)

// checkRedisURL says what is wrong with a URL, in words that show none of it.
func checkRedisURL(s string) string {
	u, err := url.Parse(s)
	switch {
	case s == "":
		return "is empty"
	case err != nil:
		return "is not a URL; percent-encode the special characters of a password"
	case u.Scheme == "unix" && u.Path == "":
		return "names no socket"
	case u.Scheme != "unix" && u.Scheme != "redis" && u.Scheme != "rediss":
		return "scheme " + quote(u.Scheme) + " is not one of redis, rediss and unix"
	case u.Scheme != "unix" && u.Hostname() == "":
		return "names no host"
	case u.Fragment != "" || strings.HasSuffix(s, "#"):
		return "has a fragment (#); percent-encode the special characters of a password"
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "port " + quote(port) + " is not a number from 1 to 65535"
		}
	}
	return checkRedisDatabase(u)
}

// checkRedisDatabase looks at the path, which a server's database is, and at
// the query, in which a socket's stands.
func checkRedisDatabase(u *url.URL) string {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "has a query that cannot be read"
	}
	for name, values := range query {
		if name != "db" || len(values) > 1 {
			return "has a query parameter other than one db; write the settings beside url"
		}
		if !isDatabase(values[0]) {
			return "database " + quote(values[0]) + " is not a number from 0"
		}
	}
	path := strings.Trim(u.Path, "/")
	if u.Scheme != "unix" && path != "" && !isDatabase(path) {
		return "database " + quote(path) + " is not a number from 0"
	}
	return ""
}

func isDatabase(s string) bool {
	n, err := strconv.ParseUint(s, 10, 31)
	return err == nil && n <= maxRedisDatabase
}

// urlDatabase is the database of a checked URL.
func urlDatabase(s string) int {
	u, err := url.Parse(s)
	if err != nil {
		return 0
	}
	text := u.Query().Get("db")
	if text == "" && u.Scheme != "unix" {
		text = strings.Trim(u.Path, "/")
	}
	n, _ := strconv.Atoi(text) // "" is 0
	return n
}

func (d *decoder) redisDatabase(at *redisNodes, r *Redis) {
	if r.Cluster && r.URL != "" && urlDatabase(r.URL) != 0 {
		d.fail(*at.cluster, "a cluster has only database 0, and the URL names another", "remove the database from the URL")
	}
	n := at.database
	if n == nil {
		return
	}
	s, ok := d.scalar(*n, "the number of a database, such as 0")
	switch {
	case !ok:
		return
	case !isDatabase(s.text):
		d.fail(*n, quote(s.text)+" is not the number of a database", "write for example 0")
	case at.addresses == nil:
		d.fail(*n, "is for addresses", "write it into the URL: redis://host:6379/"+s.text)
	case r.Cluster && s.text != "0":
		d.fail(*n, "a cluster has only database 0", "remove it")
	default:
		r.Database, _ = strconv.Atoi(s.text)
	}
}

func (d *decoder) redisSecrets(at *redisNodes, r *Redis) {
	r.Password = d.secret(at.password, at.passwordFile, "password")
	r.SentinelPassword = d.secret(at.sentinelPassword, at.sentinelPasswordFile, "sentinel_password")
	if at.sentinelUser != nil {
		r.SentinelUsername, _ = d.text(*at.sentinelUser, "a user name")
	}
	for _, n := range []*node{at.sentinelUser, at.sentinelPassword, at.sentinelPasswordFile} {
		if n != nil && at.masterName == nil {
			d.fail(*n, "needs master_name: it is for sentinels", "set master_name, or remove it")
		}
	}
	if at.sentinelUser != nil && at.sentinelPassword == nil && at.sentinelPasswordFile == nil {
		d.fail(*at.sentinelUser, "has no password beside it", "set sentinel_password or sentinel_password_file")
	}
}

// secret reads a value that may stand in a file of its own.
func (d *decoder) secret(value, file *node, name string) string {
	switch {
	case value != nil && file != nil:
		d.fail(*file, name+" is set too", "remove one of the two")
		return ""
	case file != nil:
		return d.secretFile(*file)
	case value != nil:
		s, _ := d.text(*value, "a password")
		return s
	}
	return ""
}

func (d *decoder) redisTLS(at *redisNodes, r *Redis) {
	const file = "the path of a file"
	path := func(n *node) (s string) {
		if n != nil {
			s, _ = d.text(*n, file)
		}
		return s
	}
	r.CAFile, r.CertFile, r.KeyFile = path(at.caFile), path(at.certFile), path(at.keyFile)
	r.TLS = at.caFile != nil || at.certFile != nil
	if at.tls != nil {
		on, ok := d.boolean(*at.tls)
		switch {
		case ok && !on && r.TLS:
			d.fail(*at.tls, "false beside ca_file or cert_file, which turn it on", "remove one of them")
		case ok && !on && strings.HasPrefix(r.URL, "rediss:"):
			d.fail(*at.tls, "false beside a URL of rediss://, which turns it on", "write redis://, or remove tls")
		}
		r.TLS = r.TLS || on
	}
	if at.serverName != nil {
		r.ServerName, _ = d.text(*at.serverName, "the name in the server's certificate")
		if !r.TLS && !strings.HasPrefix(r.URL, "rediss:") && at.urlFile == nil {
			d.fail(*at.serverName, "has no meaning without TLS", "set tls: true, or write rediss:// in the URL")
		}
	}
	switch {
	case at.certFile != nil && at.keyFile == nil:
		d.fail(*at.certFile, "has no key_file beside it", "set key_file to the key of the certificate")
	case at.certFile == nil && at.keyFile != nil:
		d.fail(*at.keyFile, "has no cert_file beside it", "set cert_file to the certificate of the key")
	}
	d.certificates(at, r)
}

// certificates reads the files as serving would.
func (d *decoder) certificates(at *redisNodes, r *Redis) {
	if d.machine.readFile == nil {
		return
	}
	content := func(n *node, path string) ([]byte, bool) {
		if n == nil || path == "" {
			return nil, false
		}
		b, e := d.machine.readFile(path)
		if e != nil {
			d.fail(*n, quote(path)+" "+e.Problem, "name a file that can be read")
		}
		return b, e == nil
	}
	if b, ok := content(at.caFile, r.CAFile); ok && !x509.NewCertPool().AppendCertsFromPEM(b) {
		d.fail(*at.caFile, quote(r.CAFile)+" holds no certificate", "name a file in PEM format, which begins with -----BEGIN CERTIFICATE-----")
	}
	cert, ok1 := content(at.certFile, r.CertFile)
	key, ok2 := content(at.keyFile, r.KeyFile)
	if !ok1 || !ok2 {
		return
	}
	if _, err := tls.X509KeyPair(cert, key); err != nil {
		problem := strings.TrimPrefix(err.Error(), "tls: ")
		d.fail(*at.certFile, "cannot be used with key_file: "+clip(problem, 200), "name a certificate and its own key, both in PEM format")
	}
}

func (d *decoder) redisRetry(at *redisNodes, r *Redis) {
	read := func(n *node, to *time.Duration, example string) {
		if n != nil {
			d.span(*n, to, example, minRedisRetry, maxRedisRetry, "")
		}
	}
	read(at.retryMin, &r.RetryMin, "100ms")
	read(at.retryMax, &r.RetryMax, "2s")
	least, most := firstRetry, longestRetry
	if r.RetryMin > 0 {
		least = r.RetryMin
	}
	if r.RetryMax > 0 {
		most = r.RetryMax
	}
	switch {
	case least <= most:
	case at.retryMax != nil:
		d.fail(*at.retryMax, fmt.Sprintf("%v is below retry_min, which is %v", most, least), "raise it, or lower retry_min")
	default:
		d.fail(*at.retryMin, fmt.Sprintf("%v is above retry_max, which is %v", least, most), "lower it, or raise retry_max")
	}
}
