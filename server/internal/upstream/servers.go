package upstream

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/fastlimit/fastlimit/server/internal/latency"
)

const (
	failuresToEject = 3 // in a row: one is an accident, two may be a restart
	minEjection     = time.Second
	maxEjection     = 30 * time.Second
)

// server is a server and its state. Pool.mu guards it.
type server struct {
	Server
	at    int // in Pool.servers
	idle  list
	inUse int // lent, or being dialled for somebody

	failures int // in a row
	ejected  bool
	pause    time.Duration // how long it is or was last ejected
	until    time.Time
	era      uint // number of ejections: identifies requests from before the last one
	probes   int  // requests that began while it was ejected

	requests, dials, failed, ejections uint64
	dialErrors                         [dialClasses]uint64
	connect, firstByte                 latency.Histogram // not guarded
}

func newServer(s Server, at int) *server {
	if s.TLS != nil {
		s.TLS = s.TLS.Clone()
		if s.TLS.ServerName == "" {
			s.TLS.ServerName, _, _ = net.SplitHostPort(s.Address)
		}
		if len(s.TLS.NextProtos) == 0 {
			s.TLS.NextProtos = []string{"http/1.1"}
		}
		if s.TLS.ClientSessionCache == nil {
			s.TLS.ClientSessionCache = tls.NewLRUClientSessionCache(0)
		}
	}
	return &server{Server: s, at: at}
}

// chooseLocked returns the server to ask, except those already tried, or nil.
func (p *Pool) chooseLocked(tried []*server) *server {
	var best, first *server
	var now time.Time
	if p.ejected > 0 {
		now = time.Now()
	}
	for i := range p.servers {
		k := p.turn + i
		if k >= len(p.servers) {
			k -= len(p.servers)
		}
		s := p.servers[k]
		switch {
		case len(tried) > 0 && slices.Contains(tried, s):
		case !s.ejected:
			if best == nil || s.inUse < best.inUse {
				best = s
			}
		case s.probes == 0 && !now.Before(s.until):
			return s // with one request; the others use other servers
		case first == nil || s.until.Before(first.until):
			first = s
		}
	}
	return cmp.Or(best, first)
}

// beginLocked counts a request, which has a connection or is about to dial. The next search begins after this
// server.
func (s *server) beginLocked(c *Conn) {
	s.inUse++
	if c.pool.turn = s.at + 1; c.pool.turn == len(c.pool.servers) {
		c.pool.turn = 0
	}
	c.era = s.era
	if c.probe = s.ejected; c.probe {
		s.probes++
	}
}

// endLocked is its end.
func (s *server) endLocked(c *Conn) {
	s.inUse--
	if c.probe {
		c.probe = false
		s.probes--
	}
}

// succeedLocked records an answer. It reports whether the server is back.
func (s *server) succeedLocked(p *Pool, c *Conn) (back bool) {
	switch {
	case !s.ejected:
		s.failures = 0
	case c.era == s.era:
		s.ejected, s.failures, s.pause = false, 0, 0
		p.ejected--
		return true
	}
	return false
}

// ejection is what remains to be done after a failure, without the lock.
type ejection struct {
	begun bool
	pause time.Duration
	idle  *Conn // to close, linked by older
}

// failLocked records a failure of a request that began in an era.
func (s *server) failLocked(p *Pool, era uint) (out ejection) {
	switch {
	case s.ejected && era == s.era:
		s.pause = min(2*s.pause, maxEjection)
	case s.ejected:
		return out // it began before
	default:
		if s.failures++; s.failures < failuresToEject {
			return out
		}
		s.ejected, s.pause = true, minEjection
		p.ejected++
		s.ejections++
		out = ejection{begun: true, pause: s.pause, idle: s.idle.takeAll()}
	}
	s.era++
	s.until = time.Now().Add(s.pause)
	return out
}

// carryOut closes the idle connections of an ejected server.
func (p *Pool) carryOut(s *server, e ejection) {
	p.endAll(e.idle)
	if e.begun {
		p.config.Log.Warn("an upstream server is failing; requests go to the others, if there are any",
			slog.String("server", s.Name), slog.Int("failures", failuresToEject), slog.Duration("pause", e.pause))
	}
}

func (p *Pool) logBack(s *server) {
	p.config.Log.Info("an upstream server answers again", slog.String("server", s.Name))
}

// list is the idle connections of a server. Pool.mu guards it.
type list struct {
	newest, oldest *Conn
	len            int
}

func (l *list) add(c *Conn) {
	if c.older = l.newest; c.older == nil {
		l.oldest = c
	} else {
		c.older.newer = c
	}
	l.newest = c
	l.len++
}

func (l *list) remove(c *Conn) {
	if c.newer == nil {
		l.newest = c.older
	} else {
		c.newer.older = c.older
	}
	if c.older == nil {
		l.oldest = c.newer
	} else {
		c.older.newer = c.newer
	}
	c.older, c.newer = nil, nil
	l.len--
}

// takeAll empties the list; its connections stay linked by older.
func (l *list) takeAll() *Conn {
	all := l.newest
	for c := all; c != nil; c = c.older {
		c.newer = nil
	}
	*l = list{}
	return all
}
