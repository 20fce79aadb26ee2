// Package banbench measures what a flood costs a server that shuts its senders out, beside
// one that answers them: fastlimit with bans in the kernel, in memory and without,
// nginx limit_req with and without fail2ban, HAProxy with silent-drop and with denials.
//
// Servers and clients are in network namespaces joined by a virtual cable, which the
// program makes itself, without root. The kernel's work on packets that reach the servers,
// packet filter included, is done by a thread of its own, so that it is counted beside the
// CPU time of the servers' processes, and not as the clients'. What is not counted: the
// time of clients; timers of the kernel's TCP.
//
// A flood is an open loop as long as the sender does not run out of connections, each
// of which waits 200 ms for an answer: a sender that is dropped goes on.
package banbench

import (
	"time"

	"github.com/fastlimit/fastlimit/bench/report"
)

// Options configure [Run]. Zero fields mean defaults.
type Options struct {
	Fastlimit string          `kong:"-"` // the binary to measure
	Servers   []string        `placeholder:"NAME" name:"server" help:"Servers to measure: fastlimit, fastlimit-memory, fastlimit-answers, nginx-fail2ban, nginx, haproxy-drop, haproxy. Default: all that are installed."`
	Sources   []int           `default:"1000" help:"Addresses that flood."`
	Lasting   bool            `help:"Flood over lasting connections; else each request has one of its own."`
	Rate      float64         `default:"4000" help:"Requests per second of the flood."`
	Duration  time.Duration   `default:"5s" help:"Of the measurement, after the senders have been shut out."`
	Quiet     time.Duration   `default:"60s" help:"The longest that a server is given to shut them out."`
	Progress  report.Progress `kong:"-"`
}
