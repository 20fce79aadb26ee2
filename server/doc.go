// Package server puts a policy on the network: a decision service that speaks
// HTTP/1 to reverse proxies, and an admin listener for operators.
//
//	                            ┌ identity ── policy ─► 200, or a denial
//	traffic ─► gate ─► fasthttp ┤
//	                            └ POST /v1/decide (if enabled) ─┐
//	admin   (net/http) ────────── health, metrics, info, pprof ─┴► limiter
//
// # One request
//
// A request on a traffic listener is a decision about itself, or about the
// original request that headers of a trusted proxy name. Every byte passes a
// strict reader of HTTP/1 framing before fasthttp parses it (gate.go). What is
// not a plain HTTP/1 request from a client with an address is refused before it
// can be counted for anybody (framing.go, request.go). An admitted request gets an
// empty 200; of a denial only a few digits are not rendered beforehand (page.go).
// Neither allocates.
//
// # State and who owns it
//
//   - Counters are striped by the job of a request, which comes from a pool
//     (counter.go); whoever scrapes adds them up.
//   - A connection belongs to the goroutine that serves it (conn.go, serve.go). It
//     notes what it is about and since when, and what it reads passes its gate
//     (gate.go). One registry for all listeners ends what takes too long, and
//     who has to make room (conns.go, evict.go).
//   - A head that does not fit the 4 KiB of fasthttp's buffer goes to a second
//     fasthttp server with a larger one, for one request (large.go).
//   - One goroutine, started by [Server.Serve], ticks once a second: it lets the
//     limiter do its work that is due, ends a second of the log, and logs changes
//     of state (watch.go).
//   - Denials are counted by client for the log, in fixed memory striped like
//     the counters (denials.go); bad requests by reason (badlog.go); other log
//     budgets are an atomic that is only read once it is used up (sampler.go). So
//     a flood writes neither log lines nor shared memory.
//
// # Stopping
//
// When the context of Serve ends: /readyz answers 503 and every response closes
// its connection; after Drain.Delay the listeners close, once their queues are
// empty; idle connections end after a last look at what has arrived; requests in
// flight finish; what is still open at Drain.Timeout is cut (drain.go).
//
// # What it does not do
//
// No TLS and no HTTP/2: put it behind the proxy that does both. A body is read
// and dropped: no decision needs one (body.go).
package server
