package admin

import (
	"context"
	"net"
	"net/http"
	"os/user"
	"strconv"
)

// peerKey is the context key for the other end of a request's connection.
type peerKey struct{}

// withPeer stores the other end of a connection in its context.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	if uid, ok := socketUser(c); ok {
		return context.WithValue(ctx, peerKey{}, userName(uid))
	}
	return ctx
}

// userName is a local user's name in the log.
func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return "user " + u.Username
	}
	return "user " + id
}

// tokenKey is the context key for the name of a request's token.
type tokenKey struct{}

// peer names the caller, for the log: an address, or on a Unix socket a local user, after the name of the
// token.
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
