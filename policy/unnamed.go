package policy

import "sync/atomic"

// OnUnnamed is what to do with a request of a trusted proxy that names no
// client, or no original request where one is configured: what is left is the
// proxy itself, one key for all its clients.
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

// UnnamedHint counts the requests of trusted proxies that lack something. The
// zero value is ready. It is safe for concurrent use.
type UnnamedHint struct {
	seen            atomic.Uint64
	client, request atomic.Bool // it was warned of
}

// Note counts one request. It returns true once for each of the two things that
// may be missing: warn then.
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
