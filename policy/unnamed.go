package policy

import "sync/atomic"

// OnUnnamed is what to do with a request if a trusted proxy names no client, or no
// original request although one is configured. The only address is then that of the
// proxy, one key for all its clients.
type OnUnnamed uint8

// The choices of on_unnamed.
const (
	UnnamedPeer OnUnnamed = iota // charge the proxy's own address
	UnnamedSkip                  // leave out the rules with ip in their key
	UnnamedDeny                  // refuse the request
)

// String is the choice as a configuration file names it.
func (o OnUnnamed) String() string {
	switch o {
	case UnnamedSkip:
		return "skip"
	case UnnamedDeny:
		return "deny"
	}
	return "peer"
}

// UnnamedHint counts the requests of trusted proxies that lack a name. The zero value is
// ready to use. It is safe for concurrent use.
type UnnamedHint struct {
	seen            atomic.Uint64
	client, request atomic.Bool // whether Note has returned true for it
}

// Note counts one request. It returns true the first time that a client is missing, and
// the first time that a request is: these are the times to warn.
func (h *UnnamedHint) Note(noClient, noRequest bool) (warn bool) {
	h.seen.Add(1)
	if noClient && h.client.CompareAndSwap(false, true) {
		warn = true
	}
	if noRequest && h.request.CompareAndSwap(false, true) {
		warn = true
	}
	return warn
}

// Count is the number of requests noted.
func (h *UnnamedHint) Count() uint64 { return h.seen.Load() }
