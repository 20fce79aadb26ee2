//go:build linux

package load

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestQuick(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("hello")) }))
	defer server.Close()
	for _, c := range []SpinConfig{
		{Conns: 32, Sources: 32, Duration: time.Second},
		{Conns: 32, Sources: 32, Duration: time.Second, Rate: 1000},
		{Conns: 32, Sources: 32, Requests: 1000, Reconnect: true, Request: []byte("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")},
		{Conns: 5000, Sources: 250, Duration: time.Second},
	} {
		c.Addr = server.Listener.Addr().String()
		if c.Request == nil {
			c.Request = []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		}
		o, err := Spin(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		o.Latency, o.Service = nil, nil
		t.Logf("%+v", o)
	}
}
