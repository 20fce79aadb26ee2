package upstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"
)

// Defaults of Config.
const (
	DefaultConnectTimeout  = time.Second
	DefaultResponseTimeout = 30 * time.Second
	DefaultWriteTimeout    = 10 * time.Second
	DefaultIdleTimeout     = time.Minute
	DefaultQueueTimeout    = time.Second
	DefaultMaxConnections  = 1024
	DefaultMaxQueue        = 1024

	defaultKeepAlive = 4 * time.Second // see the package comment
)

// Server is a server to connect to.
type Server struct {
	Network string // tcp or unix
	Address string // host:port, or the path of the socket
	// TLS, if not nil, is used with the server; the caller must not change it any more. Its ServerName, if
	// empty, is the host of Address; its NextProtos, if empty, only HTTP/1.1.
	TLS  *tls.Config
	Name string // as configured, for logs and metrics
}

// Config configures a [Pool]. Servers is required, with unique names.
type Config struct {
	Servers []Server

	// ConnectTimeout bounds a dial, including the TLS handshake.
	ConnectTimeout time.Duration
	// ResponseTimeout bounds the time from the last byte of a request to the head of its
	// answer. This and the next two are enforced up to an eighth late.
	ResponseTimeout time.Duration
	// WriteTimeout is how long a write may make no progress.
	WriteTimeout time.Duration
	// IdleTimeout is how long a server may be silent within an answer that has begun.
	IdleTimeout time.Duration
	// KeepAlive is the most that an idle connection is kept, and it is kept at least 7/8 of it.
	KeepAlive time.Duration

	// MaxConnections bounds the connections to all servers together.
	MaxConnections int
	// MaxPerClient bounds the connections of one client. 0 means at most four times what is left then.
	MaxPerClient int
	// MaxQueue bounds how many requests wait for one; negative means none. QueueTimeout bounds how long.
	MaxQueue     int
	QueueTimeout time.Duration

	// Log reports when a server is ejected and when it is back. nil means slog.Default().
	Log *slog.Logger

	// dial replaces the dialer of package net in tests.
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// withDefaults fills in what is not set.
func (c Config) withDefaults() Config {
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, DefaultConnectTimeout)
	c.ResponseTimeout = cmp.Or(c.ResponseTimeout, DefaultResponseTimeout)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, DefaultWriteTimeout)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, DefaultIdleTimeout)
	c.KeepAlive = cmp.Or(c.KeepAlive, defaultKeepAlive)
	c.QueueTimeout = cmp.Or(c.QueueTimeout, DefaultQueueTimeout)
	c.MaxConnections = cmp.Or(c.MaxConnections, DefaultMaxConnections)
	c.MaxQueue = max(0, cmp.Or(c.MaxQueue, DefaultMaxQueue))
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.dial == nil {
		c.dial = new(net.Dialer).DialContext
	}
	return c
}
