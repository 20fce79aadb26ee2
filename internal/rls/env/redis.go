package env

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit/bucket/redisstore"
	"github.com/fastlimit/fastlimit/internal/field"
	"github.com/fastlimit/fastlimit/internal/namedfile"
)

const noRedis = "none"

// redis reads what REDIS_URL names: the address of a server, its URL, or the path of its
// socket; the name that sentinels know it by and their addresses; or those of a cluster's nodes. "none"
// is no Redis.
func (r *reader) redis() *redisstore.Config {
	text, set := r.get("REDIS_URL")
	if !set || strings.EqualFold(text, noRedis) {
		return nil
	}
	c := &redisstore.Config{
		Timeout: r.duration("FASTLIMIT_STORE_TIMEOUT", 5*time.Millisecond), SentinelPassword: r.text("REDIS_SENTINEL_AUTH", ""),
	}
	c.Username, c.Password = login(r.text("REDIS_AUTH", ""))
	if c.SentinelPassword != "" {
		c.SentinelUsername, c.SentinelPassword = login(c.SentinelPassword)
	}
	if r.bool("REDIS_TLS") {
		c.TLS, c.CAFile = true, r.text("REDIS_TLS_CACERT", "")
		c.CertFile, c.KeyFile = r.text("REDIS_TLS_CLIENT_CERT", ""), r.text("REDIS_TLS_CLIENT_KEY", "")
	}
	parts := strings.Split(text, ",")
	switch kind := strings.ToUpper(r.text("REDIS_TYPE", "SINGLE")); kind {
	case "SINGLE":
		switch {
		case strings.HasPrefix(text, "/"):
			c.URL = (&url.URL{Scheme: "unix", Path: text}).String()
		case strings.Contains(text, "://"):
			c.URL = text
		default:
			c.Addrs = parts
		}
	case "SENTINEL":
		c.MasterName, c.Addrs = parts[0], parts[1:]
	case "CLUSTER":
		c.Cluster, c.Addrs = true, parts
	default:
		r.fail("REDIS_TYPE", kind, "SINGLE, SENTINEL or CLUSTER")
		return c
	}
	if slices.ContainsFunc(c.Addrs, func(addr string) bool { return strings.ContainsAny(addr, "@/") }) {
		// What connects would put it, with a password in it, into errors and logs.
		r.errs = append(r.errs, errors.New("REDIS_URL: an address is not host:port: REDIS_AUTH and REDIS_SENTINEL_AUTH have users and passwords, REDIS_TLS=true is TLS"))
		return c
	}
	r.check(c)
	return c
}

// login splits user:password, or is a password alone.
func login(auth string) (user, password string) {
	user, password, found := strings.Cut(auth, ":")
	if !found {
		return "", auth
	}
	return user, password
}

// variables are those of the fields that may be wrong.
var variables = map[string]string{
	"CAFile": "REDIS_TLS_CACERT", "CertFile": "REDIS_TLS_CLIENT_CERT", "KeyFile": "REDIS_TLS_CLIENT_KEY",
	"Timeout": "FASTLIMIT_STORE_TIMEOUT", "SentinelPassword": "REDIS_SENTINEL_AUTH", "SentinelUsername": "REDIS_SENTINEL_AUTH",
}

// check reports what the store would refuse, without what may be secret.
func (r *reader) check(c *redisstore.Config) {
	for _, e := range field.All(c.Validate(namedfile.ReadFile)) {
		name, known := variables[e.Field]
		if !known {
			name, e.Fix = "REDIS_URL", "write host:port, with REDIS_TYPE=SENTINEL name,host:port,… of the sentinels, with CLUSTER host:port,… of some nodes"
		}
		r.errs = append(r.errs, fmt.Errorf("%s: %s: %s", name, e.Problem, e.Fix))
	}
}
