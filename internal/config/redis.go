package config

import (
	"fmt"
	"strings"
	"time"
)

// Redis is the shared exact tier as the file names it. Exactly one of URL and
// Addresses is set.
type Redis struct {
	URL        string
	Addresses  []string // of one server, of sentinels, or of nodes of a cluster
	MasterName string   // the primary as Sentinel knows it
	Cluster    bool
	Database   int // with Addresses; a URL names its own
	Username   string
	Password   string
	KeyPrefix  string
	Timeout    time.Duration // J

	SentinelUsername, SentinelPassword string

	TLS                       bool // also where a file is set
	CAFile, CertFile, KeyFile string
	ServerName                string // in the certificate; "" is the host

	Workers, Queue     int           // 0: the default of the store
	RetryMin, RetryMax time.Duration // likewise
}

// Bounds of redis.timeout: below, the scheduler alone is late; above, a
// request waits for longer than a client does.
const (
	minRedisTimeout = time.Millisecond
	maxRedisTimeout = time.Second
	redisExample    = `write for example redis: {url: "redis://127.0.0.1:6379/0"}`
)

// redisNodes are the settings of redis that exclude each other.
type redisNodes struct {
	url, urlFile, addresses, masterName, cluster, database *node
	password, passwordFile                                 *node
	sentinelUser, sentinelPassword, sentinelPasswordFile   *node
	tls, caFile, certFile, keyFile, serverName             *node
	retryMin, retryMax                                     *node
}

func (d *decoder) redis(n node) {
	r := &Redis{}
	var at redisNodes
	set := func(to **node) func(node) { return func(v node) { *to = &v } }
	word := func(to *string, want string) func(node) {
		return func(v node) { *to, _ = d.text(v, want) }
	}
	ok := d.mapping(n, `settings such as {url: "redis://127.0.0.1:6379/0"}`, []setting{
		{"url", set(&at.url)},
		{"url_file", set(&at.urlFile)},
		{"addresses", set(&at.addresses)},
		{"master_name", set(&at.masterName)},
		{"cluster", set(&at.cluster)},
		{"username", word(&r.Username, "a user name")},
		{"password", set(&at.password)},
		{"password_file", set(&at.passwordFile)},
		{"sentinel_username", set(&at.sentinelUser)},
		{"sentinel_password", set(&at.sentinelPassword)},
		{"sentinel_password_file", set(&at.sentinelPasswordFile)},
		{"database", set(&at.database)},
		{"key_prefix", word(&r.KeyPrefix, "a prefix such as fastlimit:")},
		{"timeout", func(v node) { d.redisTimeout(v, &r.Timeout) }},
		{"tls", set(&at.tls)},
		{"ca_file", set(&at.caFile)},
		{"cert_file", set(&at.certFile)},
		{"key_file", set(&at.keyFile)},
		{"server_name", set(&at.serverName)},
		{"workers", func(v node) { d.bounded(v, &r.Workers, "2", 1, maxRedisWorkers) }},
		{"queue", func(v node) { d.bounded(v, &r.Queue, "2048", 1, maxRedisQueue) }},
		{"retry_min", set(&at.retryMin)},
		{"retry_max", set(&at.retryMax)},
	})
	// Also where it is broken: rules are then read as they are meant.
	d.cfg.Redis = r
	if !ok {
		return
	}
	d.redisServer(n, &at, r)
	d.redisSecrets(&at, r)
	d.redisTLS(&at, r)
	d.redisRetry(&at, r)
}

// redisServer reads where Redis is.
func (d *decoder) redisServer(n node, at *redisNodes, r *Redis) {
	given := 0
	for _, v := range []*node{at.url, at.urlFile, at.addresses} {
		if v != nil {
			given++
		}
	}
	if given != 1 {
		d.fail(n, fmt.Sprintf("%d of url, url_file and addresses are set", given), "set one: "+redisExample)
		return
	}
	if at.masterName != nil {
		r.MasterName, _ = d.text(*at.masterName, "the name of the primary as Sentinel knows it")
		if at.addresses == nil {
			d.fail(*at.masterName, "needs addresses, of the sentinels", "set addresses instead of a URL")
		}
	}
	if at.cluster != nil {
		r.Cluster, _ = d.boolean(*at.cluster)
		if r.Cluster && at.masterName != nil {
			d.fail(*at.cluster, "true beside master_name", "Sentinel and Cluster exclude each other: remove one")
		}
	}
	switch {
	case at.addresses != nil:
		for _, item := range d.items(*at.addresses, `a list such as ["127.0.0.1:6379"]`) {
			var a string
			if d.address(item, &a) {
				r.Addresses = append(r.Addresses, a)
			}
		}
		if n := len(r.Addresses); n > 1 && at.masterName == nil && !r.Cluster {
			d.fail(*at.addresses, fmt.Sprintf("%d addresses of one server", n), "set master_name for sentinels, cluster: true for nodes of a cluster, or remove all but one")
		}
	case at.url != nil:
		if s, ok := d.scalar(*at.url, "a URL such as redis://127.0.0.1:6379/0"); ok {
			d.redisURL(*at.url, s.text, r)
		}
	default:
		before := len(d.errs)
		if s := d.secretFile(*at.urlFile); len(d.errs) == before {
			d.redisURL(*at.urlFile, s, r)
		}
	}
	d.redisDatabase(at, r)
}

// redisURL checks a URL without ever showing it: it may hold a password.
func (d *decoder) redisURL(n node, s string, r *Redis) {
	if problem := checkRedisURL(s); problem != "" {
		d.fail(n, problem, redisURLFix)
		return
	}
	r.URL = s
}

func (d *decoder) redisTimeout(n node, to *time.Duration) {
	d.span(n, to, "5ms", minRedisTimeout, maxRedisTimeout, ": requests wait for so long when Redis is slow")
}

// span reads a time within bounds; why follows them in the message.
func (d *decoder) span(n node, to *time.Duration, example string, least, most time.Duration, why string) {
	s, ok := d.scalar(n, "a time such as "+example)
	if !ok {
		return
	}
	v, err := time.ParseDuration(s.text)
	switch {
	case err != nil:
		d.fail(n, quote(s.text)+" is not a time", "write for example "+example)
	case v < least || v > most:
		d.fail(n, s.text+" is out of range", fmt.Sprintf("want %v to %v%s", least, most, why))
	default:
		*to = v
	}
}

// secretFile returns the content of the file that n names, without the newline
// that editors add.
func (d *decoder) secretFile(n node) string {
	path, ok := d.text(n, "the path of a file")
	if !ok {
		return ""
	}
	if d.machine.readFile == nil {
		d.fail(n, quote(path)+" is not read here", "write the secret itself")
		return ""
	}
	data, e := d.machine.readFile(path)
	if e != nil {
		d.fail(n, quote(path)+" "+e.Problem, "name a file that can be read")
		return ""
	}
	return strings.TrimRight(string(data), "\r\n")
}

// storeTimeout is J, 0 for the default.
func (c *Config) storeTimeout() time.Duration {
	if c.Redis == nil {
		return 0
	}
	return c.Redis.Timeout
}
