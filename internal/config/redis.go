package config

import (
	"strings"
	"time"

	"github.com/fastlimit/fastlimit/bucket/redisstore"
)

const redisExample = `write for example redis: {url: "redis://127.0.0.1:6379/0"}`

const maxDatabase = 1<<31 - 1

// redisSettings leaves defaults to package redisstore: a field that is zero there means
// "not written", which its check of what goes together needs to know.
var redisSettings = section{
	name: "redis", want: `settings such as {url: "redis://127.0.0.1:6379/0"}`, where: "in redis, indented more than redis",
	oneOf: []string{"url", "url_file", "addresses"}, example: redisExample, check: checkRedis,
	settings: []setting{
		{name: "url", field: "URL", value: anyText("URL", textSchema(), "a URL such as redis://127.0.0.1:6379/0"), doc: "`redis://`, `rediss://` (TLS) or `unix://`, with user, password and database"},
		{name: "url_file", field: "URL", value: fileContent(), doc: "a file with the URL, to keep a password out of the configuration"},
		{name: "addresses", field: "Addrs", value: listOf("list of addresses", `a list such as ["127.0.0.1:6379"]`, address()), doc: "instead of a URL: one server, the sentinels, or some nodes of a cluster"},
		{name: "master_name", field: "MasterName", value: text("text", "the name of the primary as Sentinel knows it"), shown: "none", doc: "the name of the primary in Sentinel"},
		{name: "cluster", field: "Cluster", value: boolean(), shown: "`false`", doc: "Redis Cluster"},
		{name: "username", field: "Username", value: text("text", "a user name"), shown: "that of the URL", doc: "ACL user"},
		{name: "password", field: "Password", value: text("text", "a password"), shown: "that of the URL", doc: "better in `password_file` or `${ENV}`"},
		{name: "password_file", field: "Password", value: fileContent(), doc: "a file with the password"},
		{name: "sentinel_username", field: "SentinelUsername", value: text("text", "a user name"), shown: "none", doc: "ACL user of the sentinels"},
		{name: "sentinel_password", field: "SentinelPassword", value: text("text", "a password"), shown: "none", doc: "password of the sentinels; `password` is for the servers"},
		{name: "sentinel_password_file", field: "SentinelPassword", value: fileContent(), doc: "a file with the sentinels' password"},
		{name: "database", field: "DB", value: whole(number{most: maxDatabase, example: "0"}), shown: "`0`", doc: "database number, with `addresses`; a URL contains its own"},
		{name: "key_prefix", field: "KeyPrefix", value: text("text", "a prefix such as fastlimit:"), shown: "`fastlimit:`", doc: "prefix of every key"},
		{
			name: "timeout", field: "Timeout", value: duration(time.Millisecond, time.Second, "5ms", ": requests wait this long when Redis is slow"), shown: "`5ms`",
			doc: "longest time that a request waits; then `on_failure` decides. Use 5 times the round trip: if Redis is farther away than this, all suspects are decided without it",
		},
		{name: "tls", field: "TLS", value: boolean(), shown: "as the URL says", doc: "TLS to the servers, and to the sentinels too"},
		{name: "ca_file", field: "CAFile", value: text("path", "the path of a file"), shown: "the system's", doc: "CA certificates that the server's certificate is verified against; turns TLS on"},
		{name: "cert_file", field: "CertFile", value: text("path", "the path of a file"), shown: "none", doc: "client certificate of this node; turns TLS on"},
		{name: "key_file", field: "KeyFile", value: text("path", "the path of a file"), shown: "none", doc: "key of the client certificate"},
		{name: "server_name", field: "ServerName", value: text("text", "the name in the server's certificate"), shown: "the host", doc: "the name expected in the server's certificate"},
		{name: "workers", field: "Workers", value: whole(number{least: 1, most: redisstore.MaxWorkers, example: "2"}), shown: "`2`", doc: "batches in flight, each on its own connection"},
		{name: "queue", field: "Queue", value: whole(number{least: 1, most: redisstore.MaxQueue, example: "2048"}), shown: "`2048`", doc: "how many checks may wait for a worker"},
		{name: "retry_min", field: "RetryMin", value: duration(time.Millisecond, time.Minute, "100ms", ""), shown: "`100ms`", doc: "pause before the second attempt to reach a Redis that is down; it doubles each time"},
		{name: "retry_max", field: "RetryMax", value: duration(time.Millisecond, time.Minute, "2s", ""), shown: "`2s`", doc: "longest such pause"},
	},
}

// checkRedis reports mistakes that only the file shows: the store cannot tell a
// setting that is written from its zero value. [redisstore.Config.Validate] reports
// all others.
func checkRedis(d *decoder, n *node) {
	at := func(field string) *node { return d.places[join(n.field, field)] }
	r := d.cfg.Redis
	if db := at("DB"); db != nil && !db.failed && at("Addrs") == nil {
		d.fail(db, "is used with addresses only", "write it into the URL: redis://host:6379/"+db.text)
	}
	off := at("TLS")
	if off == nil || off.failed || r.TLS {
		return
	}
	switch {
	case at("CAFile") != nil || at("CertFile") != nil:
		d.fail(off, "false, but ca_file or cert_file turns it on", "remove one of them")
	case strings.HasPrefix(r.URL, "rediss:"):
		d.fail(off, "false, but a rediss:// URL turns it on", "write redis://, or remove tls")
	}
}

// overrideRedis replaces the server, and keeps the other settings of redis. Those that
// belong to a server or to how it is found are dropped, as they came with the old one.
func (c *Config) overrideRedis(url string) {
	r := redisstore.Config{}
	if c.Redis != nil {
		r = *c.Redis
	}
	r.URL, r.Addrs, r.MasterName, r.DB = url, nil, "", 0
	r.SentinelUsername, r.SentinelPassword = "", ""
	c.Redis = &r
}
