package config

import (
	"fmt"
	"time"

	"github.com/fastlimit/fastlimit/server"
)

func defaultConnections() server.Connections {
	return server.Connections{
		Max: 16384, MaxPerClient: 1024, HeaderBytes: 32 << 10,
		HeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, WriteTimeout: 10 * time.Second,
	}
}

func defaultDrain() server.Drain { return server.Drain{Delay: time.Second, Timeout: 10 * time.Second} }

// Bounds of connections and drain.
const (
	maxConnections = 1 << 24
	minHeaderBytes = 1 << 10
	maxHeaderBytes = 1 << 20
	minTimeout     = 100 * time.Millisecond
	maxTimeout     = time.Hour
	maxDrain       = time.Hour
)

func (d *decoder) connections(n node) {
	c := &d.cfg.Connections
	timeout := func(to *time.Duration, example string) func(node) {
		return func(v node) { d.duration(v, to, example, minTimeout, maxTimeout) }
	}
	d.mapping(n, "settings, such as {max: 16384, max_per_client: 1024}", []setting{
		{"max", func(v node) { d.bounded(v, &c.Max, "16384", 1, maxConnections) }},
		{"max_per_client", func(v node) { d.bounded(v, &c.MaxPerClient, "1024", 1, maxConnections) }},
		{"header_bytes", func(v node) { d.headerBytes(v, &c.HeaderBytes) }},
		{"header_timeout", timeout(&c.HeaderTimeout, "5s")},
		{"idle_timeout", timeout(&c.IdleTimeout, "60s")},
		{"write_timeout", timeout(&c.WriteTimeout, "10s")},
	})
}

func (d *decoder) drain(n node) {
	c := &d.cfg.Drain
	d.mapping(n, "settings, such as {delay: 1s, timeout: 10s}", []setting{
		{"delay", func(v node) { d.duration(v, &c.Delay, "1s", 0, maxDrain) }},
		{"timeout", func(v node) { d.duration(v, &c.Timeout, "10s", minTimeout, maxDrain) }},
	})
}

func (d *decoder) headerBytes(n node, to *int) {
	s, ok := d.scalar(n, "a size such as 32KiB")
	if !ok {
		return
	}
	v, ok := parseSize(s.text)
	switch {
	case !ok:
		d.fail(n, quote(s.text)+" is not a size", "write for example 32KiB")
	case v < minHeaderBytes || v > maxHeaderBytes:
		d.fail(n, s.text+" is out of range", "want 1KiB to 1MiB")
	default:
		*to = int(v)
	}
}

// duration reads a time within bounds.
func (d *decoder) duration(n node, to *time.Duration, example string, least, most time.Duration) {
	s, ok := d.scalar(n, "a time such as "+example)
	if !ok {
		return
	}
	v, err := time.ParseDuration(s.text)
	switch {
	case err != nil:
		d.fail(n, quote(s.text)+" is not a time", "write for example "+example)
	case v < least || v > most:
		d.fail(n, s.text+" is out of range", fmt.Sprintf("want %v to %v", least, most))
	default:
		*to = v
	}
}
