package conn

import (
	"slices"
	"sync/atomic"

	"github.com/valyala/fasthttp"
)

// streamCount is how many streams are in progress, and how many were refused. A client has Limits.Streams of
// them on all its connections together. A connection may always have one, like one of HTTP/1; of the others
// there are at most Limits.Max in all, so that streams take no more memory than connections may.
type streamCount struct {
	more    int                        // in excess of one per connection; guarded by conns.mu
	refused [reasonLarge]atomic.Uint64 // by reasonFull and reasonClient
}

// fullStream is the answer on a stream that is refused. net/http cannot reset one with REFUSED_STREAM.
var fullStream = newShortAnswer(fasthttp.StatusServiceUnavailable, "Too many requests are in progress.", 1)

// addStreamLocked adds a stream unless there are too many.
func (c *Conns) addStreamLocked(s *Session, cn *Conn) bool {
	peer, first := s.c.entry.peer, len(s.streams.members) == 0
	switch {
	case !s.c.entry.in(groupAll): // dismissed: it ends without an answer
		return false
	case peer != nil && peer.streams >= c.limits.Streams:
		c.streams.refused[reasonClient].Add(1)
		return false
	case !first && c.streams.more >= c.limits.Max:
		c.streams.refused[reasonFull].Add(1)
		return false
	}
	if !first {
		c.streams.more++
	}
	if peer != nil {
		peer.streams++
	}
	s.streams.add(cn)
	return true
}

// removeStreamLocked removes a stream.
func (c *Conns) removeStreamLocked(s *Session, cn *Conn) {
	s.streams.remove(cn)
	c.longs.remove(cn)
	if len(s.streams.members) > 0 {
		c.streams.more--
	}
	if s.c.entry.peer != nil {
		s.c.entry.peer.streams--
		c.forgetPeerLocked(s.c)
	}
}

// forgetPeerLocked forgets the client of a connection if nothing of it is left. The connection may end before
// its streams.
func (c *Conns) forgetPeerLocked(cn *Conn) {
	if len(cn.entry.peer.members) == 0 && cn.entry.peer.streams == 0 {
		delete(c.peers, cn.entry.client)
	}
}

// Streams returns the number of requests in progress on connections that carry many.
func (c *Conns) Streams() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cn := range slices.Concat(c.all.members, c.gone.members) {
		n += len(cn.entry.streams())
	}
	return n
}

// RefusedStreams returns how many requests were refused because too many were in progress on connections that
// carry many, of all or of their client, by reason.
func (c *Conns) RefusedStreams() map[string]uint64 { return byReason(c.streams.refused[:]) }
