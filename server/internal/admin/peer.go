package admin

import (
	"context"
	"net"
	"net/http"
	"os/user"
	"strconv"
)

// peerKey is the key of a connection's other end in the context of its requests.
type peerKey struct{}

// withPeer notes who is at the other end of a connection.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	if uid, ok := socketUser(c); ok {
		return context.WithValue(ctx, peerKey{}, userName(uid))
	}
	return ctx
}

// userName is how the log calls a user of this machine.
func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return "user " + u.Username
	}
	return "user " + id
}

// tokenKey is the key of the name of a token in the context of a request.
type tokenKey struct{}

// peer is who calls, for the log: an address, or a user of this machine on a Unix socket, behind
// the name of the token.
func peer(r *http.Request) string {
	at := place(r)
	if name, ok := r.Context().Value(tokenKey{}).(string); ok {
		return name + " (" + at + ")"
	}
	return at
}

func place(r *http.Request) string {
	if name, ok := r.Context().Value(peerKey{}).(string); ok {
		return name
	}
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}
