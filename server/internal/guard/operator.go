package guard

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// Token is a secret that a caller sends.
type Token struct {
	Name     string // of its owner; "": anonymous
	Secret   string
	ReadOnly bool
}

// Operator decides who may change or read something through an admin listener. Callers on loopback or a unix
// socket are on this machine; on any other address they must send a token, for reading only if there is one
// for that. All fields are set before its first use; it is safe for concurrent use.
type Operator struct {
	Tokens []Token // none: on such an address nobody may change anything, and all may read
}

// Who returns the name of a header's token, or "" if it has none, or one without a name.
func (o *Operator) Who(authorization string) string {
	if t, ok := o.find(authorization); ok {
		return t.Name
	}
	return ""
}

// find returns the token in a header. All are compared, by their hashes, so that not even the length of one
// can be measured.
func (o *Operator) find(authorization string) (found Token, ok bool) {
	kind, secret, _ := strings.Cut(authorization, " ")
	return o.token(secret, strings.EqualFold(kind, "Bearer"))
}

// findAsPassword is find for browsers, which send the token as a password with any name.
func (o *Operator) findAsPassword(authorization string) (found Token, ok bool) {
	kind, text, _ := strings.Cut(authorization, " ")
	pair, err := base64.StdEncoding.DecodeString(text)
	_, secret, hasPassword := strings.Cut(string(pair), ":")
	return o.token(secret, strings.EqualFold(kind, "Basic") && err == nil && hasPassword)
}

func (o *Operator) token(secret string, sent bool) (found Token, ok bool) {
	got := sha256.Sum256([]byte(secret))
	for _, t := range o.Tokens {
		if want := sha256.Sum256([]byte(t.Secret)); subtle.ConstantTimeCompare(got[:], want[:]) == 1 && secret != "" {
			found, ok = t, true
		}
	}
	return found, ok && sent
}

// Check returns the status and the reason of a refusal to change something. listener is the listener's
// address, not a connection's: behind 0.0.0.0 a connection to 127.0.0.1 may have been forwarded.
// authorization is the header. The caller has refused other sites by [Call.CrossSite].
func (o *Operator) Check(c *Call, listener net.Addr, authorization string) (int, error) {
	if local(listener) {
		return c.checkMedia()
	}
	if len(o.Tokens) == 0 {
		return http.StatusForbidden, errors.New("this admin listener is neither on loopback nor a unix socket, so changes need a token: set admin.token_file")
	}
	switch t, ok := o.find(authorization); {
	case !ok:
		return http.StatusUnauthorized, errors.New("changes need a token of this admin listener: send Authorization: Bearer TOKEN, or --token-file")
	case t.ReadOnly:
		return http.StatusForbidden, fmt.Errorf("the token of %s has the scope read: changes need one with the scope act", t.Name)
	}
	return c.checkMedia()
}

// CheckRead is Check for reading. A browser may send the token as a password here. That does not allow
// changes, because it sends the password again for any page's request.
func (o *Operator) CheckRead(listener net.Addr, authorization string) (int, error) {
	asked := false
	for _, t := range o.Tokens {
		asked = asked || t.ReadOnly
	}
	_, bearer := o.find(authorization)
	if _, password := o.findAsPassword(authorization); bearer || password || !asked || local(listener) {
		return http.StatusOK, nil
	}
	return http.StatusUnauthorized, errors.New("this admin listener has tokens with the scope read, so reading needs one, or one with the scope act: send Authorization: Bearer TOKEN, or --token-file")
}

// local reports whether only this machine can reach an address.
func local(a net.Addr) bool {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.IP.IsLoopback()
	}
	return a != nil && a.Network() == "unix" // a listener on a socket has an address of its own type
}
