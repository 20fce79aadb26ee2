// Package server puts a policy on the network: a decision service that speaks
// HTTP/1 to reverse proxies, and an admin listener for operators.
//
//	                ┌ simple ────────┬ identity ── policy ─► 200, or a denial
//	traffic ─► gate ┤                │
//	                └ rest: fasthttp ┴ POST /v1/decide (if enabled) ─┐
//	admin   (net/http) ─────────────── health, metrics, info, pprof ─┴► limiter
//
// A program that limits its clients builds a [policy.Engine] and a [policy.Identity] from its rules, passes
// them to [New] in a [Config] with at least one [Listener], and calls [Server.Serve]: see the example of New.
// Call [Server.Listen] first to learn the addresses. The fastlimit command is such a program; what follows is
// for those who operate or change the server.
//
// # One request
//
// A request on a traffic listener is a decision about itself, or about the original request that headers of a
// trusted proxy name. Every byte passes a strict reader of HTTP/1 framing before fasthttp parses it. Anything
// but a plain HTTP/1 request from a client with an address is refused before it can be counted for anybody.
// An admitted request gets an empty 200, which shows its limit if [Listener].HeadersOn says so. Denials are
// rendered in advance, except for a few digits. Neither allocates.
//
// # Rooms
//
// This package wires the rooms, each a package in internal/, so that the compiler forbids import cycles. They
// depend on each other only as shown here.
//
//	lifecycle   starts, ticks and drains any Front: conn has one, and admin
//	h2          frames of HTTP/2 in, bytes of HTTP/1.1 out ───► conn
//	decide      one request in, one answer out ───► conn   bytes, sockets, eviction
//	admin       what operators ask       metrics   what Prometheus asks
//	logs, guard, text                    shared by several rooms
//
// Another way in, such as another protocol, is a room with a lifecycle.Front and a line in New.
//
// # State and who owns it
//
//   - Everything that a reload may change (limiter, engine, identity, answers) is
//     one immutable snapshot behind one atomic pointer, which a request loads once
//     (internal/decide/snapshot.go).
//   - Counters outlive snapshots. They are striped by request state, which comes
//     from a pool; a scrape adds them up, and includes what replaced rules have
//     counted (internal/decide/history.go).
//   - A connection belongs to the goroutine that serves it, which notes its phase and
//     when that began. One registry for all listeners ends connections that are too
//     slow or have to make room (internal/conn).
//   - One goroutine, started by [Server.Serve], ticks once a second: it calls
//     [fastlimit.Limiter.Advance], ends a second of the log, and logs changes of
//     state (internal/lifecycle).
//   - For the log, denials are counted by client, in fixed memory striped like the
//     counters, and bad requests by reason. Other log messages have a budget, which
//     is only read once it is used up (internal/logs). So a flood writes neither log
//     lines nor shared memory.
//
// # Stopping
//
// When the context of Serve ends: /readyz answers 503 and every response closes
// its connection; after Drain.Delay the listeners close, once their queues are
// empty; idle connections are read once more and end; requests in
// flight finish; what is still open at Drain.Timeout is cut (internal/conn/front.go).
// The admin listener ends last (internal/lifecycle).
//
// # What it does not do
//
// No HTTP/3 and no ACME: put it behind a proxy that has them.
//
// No decision needs a body. A decision service reads and drops it first, up to Config.Connections.BodyBytes,
// and leaves what is longer unread, as it does bodies of HTTP/2. A proxy decides by the head. Where a body of
// HTTP/1 is left unread, the connection ends with the answer, and what still comes within a second is dropped:
// a reset could destroy the answer.
package server
