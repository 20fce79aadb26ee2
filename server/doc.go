// Package server puts a policy on the network: a decision service that speaks
// HTTP/1 to reverse proxies, and an admin listener for operators.
//
//	                            ┌ identity ── policy ─► 200, or a denial
//	traffic ─► gate ─► fasthttp ┤
//	                            └ POST /v1/decide (if enabled) ─┐
//	admin   (net/http) ────────── health, metrics, info, pprof ─┴► limiter
//
// # Rooms
//
// This package is the public face: [Config], [New], Listen, Serve. It wires rooms
// that know nothing of each other but what this picture shows; each is a package
// below internal/, so that the compiler forbids circles.
//
//	lifecycle   starts everything, ticks, drains ───────┐
//	decide      one request in, one answer out ─────────┴► conn   bytes, sockets, who has to go
//	admin       what operators ask       metrics   what Prometheus asks
//	logs, guard, text                    what several of them need
//
// # One request
//
// A request on a traffic listener is a decision about itself, or about the
// original request that headers of a trusted proxy name. Every byte passes a
// strict reader of HTTP/1 framing before fasthttp parses it. What is not a plain
// HTTP/1 request from a client with an address is refused before it can be counted
// for anybody. An admitted request gets an empty 200; of a denial only a few digits
// are not rendered beforehand. Neither allocates.
//
// # State and who owns it
//
//   - Everything that a reload may change (limiter, engine, identity, answers) is
//     one immutable snapshot behind one atomic pointer, which a request loads once
//     (internal/decide/snapshot.go).
//   - Counters outlive snapshots. They are striped by the state of a request, which
//     comes from a pool; whoever scrapes adds them up. Those of rules are added to
//     what replaced rules have counted (internal/decide/history.go).
//   - A connection belongs to the goroutine that serves it. It notes what it is
//     about and since when; one registry for all listeners ends what takes too long,
//     and who has to make room (internal/conn).
//   - One goroutine, started by [Server.Serve], ticks once a second: it lets the
//     limiter do its work that is due, ends a second of the log, and logs changes
//     of state (internal/lifecycle).
//   - Denials are counted by client for the log, in fixed memory striped like the
//     counters; bad requests by reason; other logs have a budget that is only read
//     once it is used up (internal/logs). So a flood writes neither log lines nor
//     shared memory.
//
// # Stopping
//
// When the context of Serve ends: /readyz answers 503 and every response closes
// its connection; after Drain.Delay the listeners close, once their queues are
// empty; idle connections end after a last look at what has arrived; requests in
// flight finish; what is still open at Drain.Timeout is cut (internal/lifecycle).
//
// # What it does not do
//
// No TLS and no HTTP/2: put it behind the proxy that does both. A body is read
// and dropped: no decision needs one.
package server
