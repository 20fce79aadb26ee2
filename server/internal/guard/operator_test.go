package guard

import (
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
		o := Operator{Token: c.token}
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

// onPath is an address as the listeners of package conn have it.
type onPath string

func (onPath) Network() string  { return "unix" }
func (p onPath) String() string { return "unix:" + string(p) }
