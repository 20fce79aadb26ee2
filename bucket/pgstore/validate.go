package pgstore

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

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
	var errs []error
	when := func(wrong bool, name, problem, fix string) {
		if wrong {
			errs = append(errs, &field.Error{Package: "fastlimit/pgstore", Field: name, Problem: problem, Fix: fix})
		}
	}
	problem := checkURL(c.URL)
	when(problem != "", "URL", problem, urlFix)
	when(c.Schema != "" && (!schemaName.MatchString(c.Schema) || strings.HasPrefix(c.Schema, "pg_")), "Schema",
		strconv.Quote(c.Schema)+" is not a name of lower-case letters, digits and underscores", "write for example fastlimit")
	count := func(name string, v, most int) {
		when(v < 0 || v > most, name, fmt.Sprintf("%d is out of range", v), fmt.Sprintf("want 1 to %d, or 0 for the default", most))
	}
	count("Workers", c.Workers, MaxWorkers)
	count("Queue", c.Queue, MaxQueue)
	span := func(name string, d, most time.Duration, fix string) {
		when(d < 0 || d > most, name, d.String()+" is out of range", fix)
	}
	span("Timeout", c.Timeout, maxDuration, "want 0 to 1m")
	span("RetryMin", c.RetryMin, maxDuration, "want 0 to 1m")
	span("RetryMax", c.RetryMax, maxDuration, "want 0 to 1m")
	span("Prune", c.Prune, maxPrune, "want 0 to 24h")
	least, most := cmp.Or(c.RetryMin, shortestRetry), cmp.Or(c.RetryMax, longestRetry)
	when(least > most && c.RetryMax != 0, "RetryMax", fmt.Sprintf("%v is below retry_min, which is %v", most, least), "raise it, or lower retry_min")
	when(least > most && c.RetryMax == 0, "RetryMin", fmt.Sprintf("%v is above retry_max, which is %v", least, most), "lower it, or raise retry_max")
	return errors.Join(errs...)
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
