// Package decide answers requests: one request in, one answer out, and a batch of questions at /v1/decide.
// Everything that a reload may change is one [Snapshot] behind one atomic pointer, which a request loads
// once; counters, logs and connections are outside of it.
//
//	conn.Handlers ─► Service.answer      version, framing, target; the body is dropped
//	             ─► read                 who is the client; whose request is it
//	             ─► policy.Engine        lists, match, keys, limits
//	             ─► writeDenial          or an empty 200; what it shows is in shown.go
//
// Anything but a plain HTTP/1 request from a client with an address is refused before it can be counted for
// anybody (bad.go). Only a few digits of a denial are not rendered in advance (response.go). Neither
// allocates. Counters are striped by the state of a request, which comes from a pool (counter.go,
// request.go).
package decide
