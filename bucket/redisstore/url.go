package redisstore

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

const (
	maxDatabase = 1<<31 - 1

	urlFix = "write redis://host:6379/0, rediss://host:6379/0 for TLS, or unix:///path/to.sock, special characters of a password percent-encoded"
)

// parseURL reads a URL, or returns what is wrong with it without showing any of it. It is
// stricter than go-redis, which takes "redis://" for localhost, cuts a password off at a
// '#', lets query parameters override our options, and quotes the URL in its errors.
func parseURL(s string) (o *redis.Options, problem string) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, "is not a URL; percent-encode the special characters of a password"
	case u.Scheme == "unix" && u.Path == "":
		return nil, "names no socket"
	case u.Scheme != "unix" && u.Scheme != "redis" && u.Scheme != "rediss":
		return nil, "scheme " + strconv.Quote(u.Scheme) + " is not one of redis, rediss and unix"
	case u.Scheme != "unix" && u.Hostname() == "":
		return nil, "names no host"
	case u.Fragment != "" || strings.HasSuffix(s, "#"):
		return nil, "has a fragment (#); percent-encode the special characters of a password"
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, "port " + strconv.Quote(port) + " is not a number from 1 to 65535"
		}
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, "has a query that cannot be read"
	}
	databases := query["db"]
	if len(query) > 1 || len(query) == 1 && len(databases) != 1 {
		return nil, "has a query parameter other than one db; write the settings next to url"
	}
	if path := strings.Trim(u.Path, "/"); u.Scheme != "unix" && path != "" {
		databases = append(databases, path)
	}
	for _, text := range databases {
		if _, err := strconv.ParseUint(text, 10, 31); err != nil {
			return nil, "database " + strconv.Quote(text) + " is not a number from 0"
		}
	}
	if o, err = redis.ParseURL(s); err != nil {
		return nil, "cannot be used (not shown, it may hold a password)"
	}
	return o, ""
}
