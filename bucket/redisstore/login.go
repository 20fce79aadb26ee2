package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"reflect"
	"time"

	"github.com/fastlimit/fastlimit/internal/namedfile"
	"github.com/redis/go-redis/v9"
)

// login is what a new connection presents to a server, and what it trusts.
type login struct {
	username, password string
	tls                *tls.Config // nil: without TLS
}

// uses makes connections of o log in with the driver's current login.
func (d *driver) uses(o *redis.UniversalOptions) {
	d.login.Store(&login{o.Username, o.Password, o.TLSConfig})
	o.CredentialsProvider = func() (username, password string) {
		l := d.login.Load()
		return l.username, l.password
	}
	o.Dialer = d.dialer(o.DialTimeout)
}

// dialer connects as go-redis does, and bounds what it reads.
func (d *driver) dialer(timeout time.Duration) func(ctx context.Context, network, addr string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: timeout}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		dial := plain.DialContext
		if config := d.login.Load().tls; config != nil {
			dial = (&tls.Dialer{NetDialer: plain, Config: config}).DialContext
		}
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return bind(c, d.counts), nil
	}
}

// Renew makes new connections, including those of registries, log in as c says: by its
// user, password and certificates, whose files are read again. Existing connections stay.
// It returns an error, and changes nothing, if c differs from the configuration of the
// store in anything that [Config.WithoutLogin] keeps.
func (s *Store) Renew(c Config) error {
	if !reflect.DeepEqual(c.WithoutLogin(), s.driver.config.WithoutLogin()) {
		return errors.New("fastlimit/redisstore: more than the login has changed: open another store")
	}
	if err := c.Validate(namedfile.ReadFile); err != nil {
		return err
	}
	c = c.WithDefaults()
	o, err := c.options()
	if err != nil {
		return err
	}
	s.driver.login.Store(&login{o.Username, o.Password, o.TLSConfig})
	return nil
}

// WithoutLogin returns the settings that must stay when the login changes: all except the
// logger, user, password and certificates. Whether there is TLS, and the login of
// sentinels, stay too.
func (c Config) WithoutLogin() Config {
	c = c.WithDefaults()
	if u, err := url.Parse(c.URL); err == nil {
		u.User = nil
		c.URL = u.String()
	}
	c.TLS = c.usesTLS()
	c.Username, c.Password, c.CAFile, c.CertFile, c.KeyFile, c.Logger = "", "", "", "", "", nil
	return c
}
