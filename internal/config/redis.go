package config

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// Redis is the shared exact tier as the file names it. Exactly one of URL and
// Addresses is set.
type Redis struct {
	URL        string
	Addresses  []string // of one server, of sentinels, or of nodes of a cluster
	MasterName string   // the primary as Sentinel knows it
	Cluster    bool
	Username   string
	Password   string
	KeyPrefix  string
	Timeout    time.Duration // J

	CAFile, CertFile, KeyFile string
}

// Bounds of redis.timeout: below, the scheduler alone is late; above, a
// request waits for longer than a client does.
const (
	minRedisTimeout = time.Millisecond
	maxRedisTimeout = time.Second
	redisExample    = `write for example redis: {url: "redis://127.0.0.1:6379/0"}`
)

// redisNodes are the settings of redis that exclude each other.
type redisNodes struct{ url, urlFile, addresses, masterName, cluster *node }

func (d *decoder) redis(n node) {
	r := &Redis{}
	var at redisNodes
	set := func(to **node) func(node) { return func(v node) { *to = &v } }
	word := func(to *string, want string) func(node) {
		return func(v node) { *to, _ = d.text(v, want) }
	}
	ok := d.mapping(n, `settings such as {url: "redis://127.0.0.1:6379/0"}`, []field{
		{"url", set(&at.url)},
		{"url_file", set(&at.urlFile)},
		{"addresses", set(&at.addresses)},
		{"master_name", set(&at.masterName)},
		{"cluster", set(&at.cluster)},
		{"username", word(&r.Username, "a user name")},
		{"password", word(&r.Password, "a password")},
		{"password_file", func(v node) { r.Password = d.secretFile(v) }},
		{"key_prefix", word(&r.KeyPrefix, "a prefix such as fastlimit:")},
		{"timeout", func(v node) { d.redisTimeout(v, &r.Timeout) }},
		{"ca_file", word(&r.CAFile, "the path of a file")},
		{"cert_file", word(&r.CertFile, "the path of a file")},
		{"key_file", word(&r.KeyFile, "the path of a file")},
	})
	// Also where it is broken: rules are then read as they are meant.
	d.cfg.Redis = r
	if !ok {
		return
	}
	d.redisServer(n, &at, r)
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
	case at.url != nil:
		if s, ok := d.scalar(*at.url, "a URL such as redis://127.0.0.1:6379/0"); ok {
			d.redisURL(*at.url, s.text, r)
		}
	default:
		d.redisURL(*at.urlFile, d.secretFile(*at.urlFile), r)
	}
}

// redisURL checks a URL without ever showing it: it may hold a password.
func (d *decoder) redisURL(n node, s string, r *Redis) {
	if problem := checkRedisURL(s); problem != "" {
		d.fail(n, problem, "write redis://host:6379/0, rediss://host:6379/0 for TLS, or unix:///path/to.sock")
		return
	}
	r.URL = s
}

func checkRedisURL(s string) string {
	u, err := url.Parse(s)
	switch {
	case s == "":
		return "is empty"
	case err != nil:
		return "is not a URL"
	case u.Scheme == "unix" && u.Path == "":
		return "names no socket"
	case u.Scheme == "unix":
	case u.Scheme != "redis" && u.Scheme != "rediss":
		return "scheme " + quote(u.Scheme) + " is not one of redis, rediss and unix"
	case u.Hostname() == "":
		return "names no host"
	}
	return ""
}

func (d *decoder) redisTimeout(n node, to *time.Duration) {
	s, ok := d.scalar(n, "a time such as 5ms")
	if !ok {
		return
	}
	v, err := time.ParseDuration(s.text)
	switch {
	case err != nil:
		d.fail(n, quote(s.text)+" is not a time", "write for example 5ms")
	case v < minRedisTimeout || v > maxRedisTimeout:
		d.fail(n, s.text+" is out of range", fmt.Sprintf("want %v to %v: requests wait for so long when Redis is slow", minRedisTimeout, maxRedisTimeout))
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
	data, e := d.readFile(path)
	if e != nil {
		d.fail(n, quote(path)+" "+e.Problem, "name a file that can be read")
		return ""
	}
	return strings.TrimRight(string(data), "\r\n")
}

// away stands for the store that a configuration only names, where limits are
// checked and memory is planned.
func (c *Config) away() bucket.Store {
	if c.Redis == nil {
		return nil
	}
	return bucket.Nowhere{}
}

// storeTimeout is J, 0 for the default.
func (c *Config) storeTimeout() time.Duration {
	if c.Redis == nil {
		return 0
	}
	return c.Redis.Timeout
}
