package conn

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

// Streams are counted to their clients and in all, also while their connections are dismissed
// and come and go, as a model counts them; nothing is left of what has ended.
func TestStreamCounts(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		c := newConns(1+rnd.IntN(8), 1+rnd.IntN(4))
		c.limits.Streams = 1 + rnd.IntN(6)
		var sessions []*Session
		begun := map[*Session][]*Conn{}
		check := func() {
			more, of := 0, map[string]int{}
			for s, streams := range begun {
				more += max(0, len(streams)-1)
				of[s.c.addr.String()] += len(streams)
			}
			if c.streams.more != more {
				t.Fatalf("seed %d: %d more than one on each connection, want %d", seed, c.streams.more, more)
			}
			for client, peer := range c.peers {
				if peer.streams != of[client.String()] {
					t.Fatalf("seed %d: %d streams of %v, want %d", seed, peer.streams, client, of[client.String()])
				}
				delete(of, client.String())
			}
			for client, n := range of {
				if n > 0 {
					t.Fatalf("seed %d: %s is forgotten, with %d streams", seed, client, n)
				}
			}
		}
		end := func(s *Session) {
			i := rnd.IntN(len(begun[s]))
			c.removeStreamLocked(s, begun[s][i])
			begun[s] = append(begun[s][:i], begun[s][i+1:]...)
		}
		for range 300 {
			switch what := rnd.IntN(10); {
			case what < 2 || len(sessions) == 0:
				cn := c.wrap(quietFrom("192.0.2." + strconv.Itoa(rnd.IntN(3))))
				if c.admit(cn) { // which may dismiss one of those that there are
					cn.entry.session = &Session{c: cn, streams: group{kind: groupStream}}
					sessions = append(sessions, cn.entry.session)
				}
			case what < 6:
				s := sessions[rnd.IntN(len(sessions))]
				own, all := 0, 0
				for other, streams := range begun {
					all += max(0, len(streams)-1)
					if other.c.addr == s.c.addr {
						own += len(streams)
					}
				}
				may := s.c.entry.in(groupAll) && own < c.limits.Streams && (len(begun[s]) == 0 || all < c.limits.Max)
				cn := c.wrap(quietFrom("192.0.2.9"))
				if got := c.addStreamLocked(s, cn); got != may {
					t.Fatalf("seed %d: admitted %v with %d of its client and %d in all", seed, got, own, all)
				}
				if may {
					begun[s] = append(begun[s], cn)
				}
			case what < 9:
				if s := sessions[rnd.IntN(len(sessions))]; len(begun[s]) > 0 {
					end(s)
				}
			default: // a connection ends when its streams have
				i := rnd.IntN(len(sessions))
				s := sessions[i]
				for len(begun[s]) > 0 {
					end(s)
				}
				c.remove(s.c)
				sessions = append(sessions[:i], sessions[i+1:]...)
			}
			check()
		}
		for _, s := range sessions {
			for len(begun[s]) > 0 {
				end(s)
			}
			c.remove(s.c)
		}
		if len(c.peers) != 0 || c.streams.more != 0 || len(c.all.members) != 0 {
			t.Errorf("seed %d: left: %d clients, %d streams, %d connections", seed, len(c.peers), c.streams.more, len(c.all.members))
		}
	}
}
