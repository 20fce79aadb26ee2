package guard

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"strings"
)

// Operator decides who may change something through an admin listener: whoever reaches
// one on loopback or a unix socket is on this machine; on any other address they have to
// send the token. All fields are set before its first use; it is safe for concurrent use.
type Operator struct {
	Token string // "": nobody has one, so on such an address nobody may
}

// Check returns the status and the reason of a refusal. listener is the address that is
// listened on, which is not that of a connection: behind 0.0.0.0 a connection to 127.0.0.1 may have been
// forwarded. authorization is the header. The caller has refused other sites by
// [Call.CrossSite].
func (o *Operator) Check(c *Call, listener net.Addr, authorization string) (int, error) {
	if local(listener) {
		return c.checkMedia()
	}
	if o.Token == "" {
		return http.StatusForbidden, errors.New("this admin listener is neither on loopback nor a unix socket, so changes need a token: set admin.token_file")
	}
	kind, token, _ := strings.Cut(authorization, " ")
	// Of hashes, so that not even the length of the token can be measured.
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(o.Token))
	if !strings.EqualFold(kind, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
		return http.StatusUnauthorized, errors.New("changes need the token of this admin listener: send Authorization: Bearer TOKEN, or --token-file")
	}
	return c.checkMedia()
}

// local reports whether only this machine can reach an address.
func local(a net.Addr) bool {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.IP.IsLoopback()
	}
	return a != nil && a.Network() == "unix" // a listener on a socket has an address of its own type
}
