package pgstore

import (
	"context"
	"errors"
	"net/url"
	"reflect"
	"strings"

	"github.com/jackc/pgx/v5"
)

// logIn prepares each new connection with the current login.
func (d *driver) logIn(_ context.Context, c *pgx.ConnConfig) error {
	if l := d.login.Load(); l != nil {
		l = l.Copy()
		c.User, c.Password, c.TLSConfig, c.Fallbacks = l.User, l.Password, l.TLSConfig, l.Fallbacks
	}
	return nil
}

// Renew makes new connections, including those of registries, log in as c says: by the
// user, password and certificates of its URL, whose files are read again. Existing
// connections stay. It returns an error, and changes nothing, if c differs from the
// configuration of the store in anything that [Config.WithoutLogin] keeps.
func (s *Store) Renew(c Config) error {
	if !reflect.DeepEqual(c.WithoutLogin(), s.driver.config.WithoutLogin()) {
		return errors.New("fastlimit/pgstore: more than the login has changed: open another store")
	}
	if err := c.Validate(); err != nil {
		return err
	}
	c = c.WithDefaults()
	pc, err := c.pool()
	if err != nil {
		return err
	}
	s.driver.login.Store(pc.ConnConfig)
	return nil
}

// byLogin are the parameters of a URL that belong to the login.
var byLogin = []string{"user", "password", "passfile", "sslrootcert", "sslcert", "sslkey", "sslpassword"}

// WithoutLogin returns the settings that must stay when the login changes: all except the
// logger, and user, password and certificates in the URL.
func (c Config) WithoutLogin() Config {
	c = c.WithDefaults()
	c.Logger = nil
	scheme, rest, _ := strings.Cut(c.URL, "://")
	rest, query, _ := strings.Cut(rest, "?")
	end := strings.IndexByte(rest+"/", '/')
	host := rest[strings.LastIndexByte(rest[:end], '@')+1:]
	values, err := url.ParseQuery(query)
	for _, name := range byLogin {
		values.Del(name)
	}
	if err == nil { // otherwise it is not a valid URL
		c.URL = scheme + "://" + host + "?" + values.Encode()
	}
	return c
}
