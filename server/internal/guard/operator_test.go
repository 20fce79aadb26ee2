package guard

import (
	"encoding/base64"
	"net"
	"net/http"
	"testing"
)

func TestOperator(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef"
	tcp := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }
	for _, c := range []struct {
		listener      net.Addr
		token, header string
		status        int
	}{
		{tcp("127.0.0.1"), "", "", 200},
		{tcp("127.8.9.1"), token, "", 200},
		{tcp("::1"), token, "Bearer wrong", 200},
		{&net.UnixAddr{Name: "a", Net: "unix"}, token, "", 200},
		{onPath("/run/a"), token, "", 200},
		{tcp("10.0.0.1"), "", "", 403},
		{tcp("10.0.0.1"), "", "Bearer ", 403},
		{tcp("10.0.0.1"), token, "", 401},
		{tcp("10.0.0.1"), token, "Bearer", 401},
		{tcp("10.0.0.1"), token, "Bearer " + token + "x", 401},
		{tcp("10.0.0.1"), token, "Bearer " + token[1:], 401},
		{tcp("10.0.0.1"), token, "Bearer  " + token, 401},
		{tcp("10.0.0.1"), token, "Basic " + token, 401},
		{tcp("10.0.0.1"), token, token, 401},
		{tcp("10.0.0.1"), token, "Bearer " + token, 200},
		{tcp("10.0.0.1"), token, "bearer " + token, 200},
		{tcp("0.0.0.0"), token, "", 401},
		{tcp("::"), token, "", 401},
		{tcp("::"), "", "", 403},
		{&net.IPAddr{IP: net.IPv4(127, 0, 0, 1)}, "", "", 403},
		{nil, "", "", 403},
	} {
		var tokens []Token
		if c.token != "" {
			tokens = []Token{{Name: "ci", Secret: "another of 16 or more"}, {Secret: c.token}}
		}
		o := Operator{Tokens: tokens}
		status, err := o.Check(&Call{Method: http.MethodPut, HasBody: true, ContentType: "application/json"}, c.listener, c.header)
		if status != c.status || (err == nil) != (status == 200) {
			t.Errorf("%v with %q for %q: %d, %v; want %d", c.listener, c.header, c.token, status, err, c.status)
		}
	}
	for media, want := range map[string]int{"": 415, "text/plain": 415, "application/x-www-form-urlencoded": 415, "application/json; charset=utf-8": 200} {
		o := Operator{}
		if status, _ := o.Check(&Call{HasBody: true, ContentType: media}, tcp("::1"), ""); status != want {
			t.Errorf("%q: %d", media, status)
		}
	}
}

// Tokens have scopes and names. Reading needs one where one is for that.
func TestScopes(t *testing.T) {
	t.Parallel()
	outside, inside := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	act, read := Token{Name: "alice", Secret: "0123456789abcdef"}, Token{Name: "grafana", Secret: "fedcba9876543210", ReadOnly: true}
	for _, c := range []struct {
		tokens         []Token
		listener       net.Addr
		header, name   string
		change, toRead int
	}{
		{nil, outside, "", "", 403, 200},
		{[]Token{act}, outside, "", "", 401, 200},
		{[]Token{act}, outside, "Bearer " + act.Secret, "alice", 200, 200},
		{[]Token{act, read}, outside, "", "", 401, 401},
		{[]Token{act, read}, outside, "Bearer x", "", 401, 401},
		{[]Token{act, read}, outside, "Basic " + read.Secret, "grafana", 401, 401},
		{[]Token{act, read}, outside, "Bearer " + read.Secret, "grafana", 403, 200},
		{[]Token{act, read}, outside, "Bearer " + act.Secret, "alice", 200, 200},
		{[]Token{act, read}, outside, "Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+act.Secret)), "", 401, 200},
		{[]Token{act, read}, outside, "basic " + base64.StdEncoding.EncodeToString([]byte(":"+read.Secret)), "", 401, 200},
		{[]Token{act, read}, outside, "Basic " + base64.StdEncoding.EncodeToString([]byte(read.Secret)), "", 401, 401},
		{[]Token{act, read}, outside, "Bearer " + base64.StdEncoding.EncodeToString([]byte("me:"+act.Secret)), "", 401, 401},
		{[]Token{act, read}, outside, "Basic " + base64.StdEncoding.EncodeToString([]byte("me:x")), "", 401, 401},
		{[]Token{{ReadOnly: true}}, outside, "Bearer ", "", 401, 401}, // a mistake of the program
		{[]Token{read}, outside, "Bearer " + read.Secret, "grafana", 403, 200},
		{[]Token{act, read}, inside, "", "", 200, 200},
		{[]Token{act, read}, inside, "Bearer " + read.Secret, "grafana", 200, 200},
	} {
		o := Operator{Tokens: c.tokens}
		change, why := o.Check(&Call{}, c.listener, c.header)
		toRead, err := o.CheckRead(c.listener, c.header)
		if change != c.change || toRead != c.toRead || (why == nil) != (change == 200) || (err == nil) != (toRead == 200) {
			t.Errorf("%d tokens, %v, %q: change %d %v, read %d %v", len(c.tokens), c.listener, c.header, change, why, toRead, err)
		}
		if change == 403 && c.name != "" && why.Error() != "the token of grafana has the scope read: changes need one with the scope act" {
			t.Error(why)
		}
		if name := o.Who(c.header); change != 401 && name != c.name || change == 401 && name != "" {
			t.Errorf("%q is %q", c.header, name)
		}
	}
}

// onPath is an address as the listeners of package conn have it.
type onPath string

func (onPath) Network() string  { return "unix" }
func (p onPath) String() string { return "unix:" + string(p) }
