package redisstore

import (
	"net/url"
	"strconv"
	"strings"
)

const (
	maxDatabase = 1<<31 - 1

	urlFix = "write redis://host:6379/0, rediss://host:6379/0 for TLS, or unix:///path/to.sock, special characters of a password percent-encoded"
)

// parsedURL is what a check needs to know of a URL.
type parsedURL struct{ database int }

// parseURL says what is wrong with a URL, in words that show none of it.
func parseURL(s string) (p parsedURL, problem string) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return p, "is not a URL; percent-encode the special characters of a password"
	case u.Scheme == "unix" && u.Path == "":
		return p, "names no socket"
	case u.Scheme != "unix" && u.Scheme != "redis" && u.Scheme != "rediss":
		return p, "scheme " + strconv.Quote(u.Scheme) + " is not one of redis, rediss and unix"
	case u.Scheme != "unix" && u.Hostname() == "":
		return p, "names no host"
	case u.Fragment != "" || strings.HasSuffix(s, "#"):
		return p, "has a fragment (#); percent-encode the special characters of a password"
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return p, "port " + strconv.Quote(port) + " is not a number from 1 to 65535"
		}
	}
	return p.withDatabase(u)
}

// withDatabase looks at the path, which a server's database is, and at the
// query, in which a socket's stands.
func (p parsedURL) withDatabase(u *url.URL) (parsedURL, string) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return p, "has a query that cannot be read"
	}
	for name, values := range query {
		if name != "db" || len(values) > 1 { // would override the profile
			return p, "has a query parameter other than one db; write the settings beside url"
		}
	}
	texts := query["db"]
	if path := strings.Trim(u.Path, "/"); u.Scheme != "unix" && path != "" {
		texts = append(texts, path)
	}
	for i, text := range texts {
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return p, "database " + strconv.Quote(text) + " is not a number from 0"
		}
		if i == 0 { // a query wins
			p.database = int(n)
		}
	}
	return p, ""
}
