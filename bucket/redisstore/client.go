package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// pipeliner is a pool of connections to one server or to a cluster.
type pipeliner interface {
	Pipeline() redis.Pipeliner
}

// client is a connection pool to one server, to the primary that Sentinel
// names, or to a cluster. Only in the last case is cluster set.
type client struct {
	redis.UniversalClient

	cluster *redis.ClusterClient
	options *redis.UniversalOptions

	mu     sync.Mutex
	direct map[string]*redis.Client // by address, for redirections
}

// maxDirect bounds the pools made for redirections. A cluster that redirects to
// more nodes has a new layout, which the client has reloaded by then.
const maxDirect = 64

// debugLog passes go-redis' own log on at debug level. It has a line for each failed
// attempt to connect; everything that matters also arrives as an error.
type debugLog struct{ log *slog.Logger }

func (q debugLog) Printf(ctx context.Context, format string, v ...any) {
	if q.log.Enabled(ctx, slog.LevelDebug) {
		q.log.DebugContext(ctx, fmt.Sprintf(format, v...))
	}
}

// setLogger guards go-redis' logger, of which a process has only one.
var setLogger sync.Once

func newClient(o *redis.UniversalOptions, log *slog.Logger) *client {
	setLogger.Do(func() { redis.SetLogger(debugLog{log}) })
	c := &client{options: o, direct: make(map[string]*redis.Client)}
	if o.IsClusterMode {
		co := o.Cluster()
		co.ClusterStateReloadInterval = 5 * time.Second
		// go-redis (9.23) appends what it learns to this list, in place if there is room: two
		// clients of one list would write into each other's.
		co.Addrs = slices.Clone(co.Addrs)
		c.cluster = redis.NewClusterClient(co)
		c.cluster.OnNewNode(func(node *redis.Client) { node.AddHook(guard{}) })
		c.UniversalClient = c.cluster
	} else {
		c.UniversalClient = redis.NewUniversalClient(o)
	}
	c.UniversalClient.AddHook(guard{})
	return c
}

// node returns a pool of connections to one node of the cluster, or the client
// itself if addr is empty. The cluster client cannot follow redirections for us,
// as it would also resend what has failed.
func (c *client) node(addr string) pipeliner {
	if addr == "" {
		return c.UniversalClient
	}
	if host, port, err := net.SplitHostPort(addr); err == nil && host == "" {
		seed, _, _ := net.SplitHostPort(c.options.Addrs[0])
		addr = net.JoinHostPort(seed, port)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.direct[addr]; ok {
		return p
	}
	if len(c.direct) >= maxDirect {
		return c.UniversalClient
	}
	so := c.options.Simple()
	so.Addr = addr
	p := redis.NewClient(so)
	p.AddHook(guard{})
	c.direct[addr] = p
	return p
}

// eachPrimary calls f for every server that may hold a bucket.
func (c *client) eachPrimary(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	if c.cluster != nil {
		return c.cluster.ForEachMaster(ctx, f)
	}
	return f(ctx, c.UniversalClient.(*redis.Client)) // both other cases are one
}

// reload reloads the slots of a cluster in the background. The cluster client does not do
// that when a node refuses connections.
func (c *client) reload(ctx context.Context) {
	if c.cluster != nil {
		c.cluster.ReloadState(ctx)
	}
}

func (c *client) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.direct {
		_ = p.Close()
	}
	return c.UniversalClient.Close()
}

// target names the servers for logs, without secrets.
func (c *client) target() string {
	t := strings.Join(c.options.Addrs, ",")
	if c.options.MasterName != "" {
		t = c.options.MasterName + "@" + t
	}
	return t
}

// redirection reads MOVED and ASK: the command was not carried out and belongs
// at addr. ask means that only this command does.
func redirection(err error) (addr string, ask, ok bool) {
	if addr, ok = redis.IsMovedError(err); ok {
		return addr, false, true
	}
	addr, ok = redis.IsAskError(err)
	return addr, ok, ok
}
