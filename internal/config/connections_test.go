package config

import (
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/server"
)

var (
	defaultConnections = server.Connections{
		Max: 16384, MaxPerClient: 1024, MaxStreamsPerClient: 1024, HeaderBytes: 32 << 10, BodyBytes: 64 << 10,
		HeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, WriteTimeout: 10 * time.Second,
	}
	defaultDrain = server.Drain{Delay: time.Second, Timeout: 10 * time.Second}
)

func TestConnections(t *testing.T) {
	t.Parallel()
	c := mustParse(t, rule)
	if c.Server.Connections != defaultConnections || c.Server.Drain != defaultDrain {
		t.Errorf("without settings: %+v %+v", c.Server.Connections, c.Server.Drain)
	}
	c = mustParse(t, `
connections: {max: 1, max_per_client: 2, max_streams_per_client: 3, header_bytes: 1MiB, body_bytes: 1KiB, header_timeout: 100ms, idle_timeout: 1h, write_timeout: 1m30s}
drain: {delay: 0s, timeout: 1h}
`+rule)
	if want := (server.Connections{
		Max: 1, MaxPerClient: 2, MaxStreamsPerClient: 3, HeaderBytes: 1 << 20, BodyBytes: 1 << 10,
		HeaderTimeout: 100 * time.Millisecond, IdleTimeout: time.Hour, WriteTimeout: 90 * time.Second,
	}); c.Server.Connections != want {
		t.Errorf("got %+v, want %+v", c.Server.Connections, want)
	}
	if want := (server.Drain{Timeout: time.Hour}); c.Server.Drain != want {
		t.Errorf("got %+v, want %+v", c.Server.Drain, want)
	}
	c = mustParse(t, "connections: {max_per_client: 7}\ndrain: {delay: 5s}\n"+rule)
	want := defaultConnections
	want.MaxPerClient = 7
	if c.Server.Connections != want || c.Server.Drain != (server.Drain{Delay: 5 * time.Second, Timeout: 10 * time.Second}) {
		t.Errorf("what is not set is not the default: %+v %+v", c.Server.Connections, c.Server.Drain)
	}
}

// Every mistake of both, with its place.
func TestConnectionMistakes(t *testing.T) {
	t.Parallel()
	_, err := Parse("f.yaml", []byte(`connections:
  max: 0
  max_per_client: 16777217
  max_streams_per_client: 0
  header_bytes: 1023
  header_timeout: 99ms
  idle_timeout: 60
  write_timeout: 2h
  maxx: 3
drain:
  delay: -1s
  timeout: 50ms
`+rule), noEnv)
	if err == nil {
		t.Fatal("accepted")
	}
	got := strings.Split(err.Error(), "\n")
	for i, want := range []string{
		"f.yaml:2:8: connections.max: 0 is too small; want at least 1",
		"f.yaml:3:19: connections.max_per_client: 16777217 is out of range; want 1 to 16777216",
		"f.yaml:4:27: connections.max_streams_per_client: 0 is too small; want at least 1",
		"f.yaml:5:17: connections.header_bytes: 1023 is out of range; want 1KiB to 1MiB",
		"f.yaml:6:19: connections.header_timeout: 99ms is out of range; want 100ms to 1h",
		`f.yaml:7:17: connections.idle_timeout: "60" is not a time; write for example 60s`,
		"f.yaml:8:18: connections.write_timeout: 2h is out of range; want 100ms to 1h",
		"f.yaml:9:3: connections.maxx: unknown setting; did you mean max? valid here: max, max_per_client, max_streams_per_client, header_bytes, body_bytes, header_timeout, idle_timeout, write_timeout",
		"f.yaml:11:10: drain.delay: -1s is out of range; want 0s to 1h",
		"f.yaml:12:12: drain.timeout: 50ms is out of range; want 100ms to 1h",
	} {
		if i >= len(got) || got[i] != want {
			t.Errorf("line %d: want %s\ngot all of:\n%v", i, want, err)
			return
		}
	}
	for _, text := range []string{"connections: 5", "connections: [1]", "connections:", "drain: 1s", "connections: {header_bytes: many}", "connections: {max: -1}", "connections: {header_timeout: forever}"} {
		if _, err := Parse("f.yaml", []byte(text+"\n"+rule), noEnv); err == nil {
			t.Errorf("%s: accepted", text)
		}
	}
}
