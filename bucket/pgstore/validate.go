package pgstore

import (
	"errors"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/fastlimit/fastlimit/internal/field"
	"github.com/jackc/pgx/v5/pgxpool"
)

const urlFix = "write postgres://user@host:5432/database, special characters of a password percent-encoded"

// schemaName matches names that need no quotes in SQL.
var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// Validate returns everything that is wrong, joined, each as a FieldError of package
// fastlimit. No message contains the URL, which may hold a password
// (TestURLErrorsHideThePassword).
func (c Config) Validate() error {
	bad := &field.Report{Package: packageName}
	problem := checkURL(c.URL)
	bad.When(problem != "", "URL", problem, urlFix)
	bad.When(c.Schema != "" && (!schemaName.MatchString(c.Schema) || strings.HasPrefix(c.Schema, "pg_")), "Schema",
		strconv.Quote(c.Schema)+" is not a name of lower-case letters, digits and underscores", "write for example fastlimit")
	bad.When(c.Prune < 0 || c.Prune > maxPrune, "Prune", c.Prune.String()+" is out of range", "want 0 to 24h")
	return errors.Join(bad.Err(), c.shared().Validate(packageName))
}

// checkURL returns what is wrong with a URL without showing any of it, or "" if nothing is.
// It is stricter than pgx, which takes missing parts from the environment of the process,
// and quotes URLs in its errors.
func checkURL(s string) (problem string) {
	if s == "" {
		return "no server"
	}
	u, err := url.Parse(firstHost(s))
	switch {
	case err != nil:
		return "is not a URL; percent-encode the special characters of a password"
	case u.Scheme != "postgres" && u.Scheme != "postgresql":
		return "scheme " + strconv.Quote(u.Scheme) + " is not postgres"
	case u.Fragment != "" || strings.HasSuffix(s, "#"):
		return "has a fragment (#); percent-encode the special characters of a password"
	}
	query, err := url.ParseQuery(u.RawQuery)
	switch {
	case err != nil:
		return "has a query that cannot be read"
	case u.Hostname() == "" && query.Get("host") == "":
		return "names no host"
	case strings.Trim(u.Path, "/") == "" && query.Get("dbname") == "":
		return "names no database"
	}
	for name := range query {
		if strings.HasPrefix(name, "pool_") || name == "connect_timeout" {
			return "has the parameter " + strconv.Quote(name) + "; write the settings next to url"
		}
	}
	if _, err := pgxpool.ParseConfig(s); err != nil {
		return "cannot be used (not shown, it may hold a password); check its parameters, and the files that they name"
	}
	return ""
}

// firstHost returns a URL with only the first of its hosts, as package url supports only
// one.
func firstHost(s string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return s
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	from := strings.LastIndexByte(rest[:end], '@') + 1
	host, _, _ := strings.Cut(rest[from:end], ",")
	return scheme + "://" + rest[:from] + host + rest[end:]
}
