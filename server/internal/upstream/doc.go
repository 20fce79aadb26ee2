// Package upstream is the pool of connections of a reverse proxy to its upstream servers.
// It speaks no HTTP: it dials, keeps, bounds, chooses and watches connections. Who uses it
// knows where a message ends.
//
// # Bounds
//
// A connection is lent, idle, being dialled or being closed; all of these, to all servers
// together, are at most Config.MaxConnections. A request needs one of as many turns first,
// with which there is always a connection or room for one; an idle connection to another
// server ends to make room.
//
// Clients share the turns: who has some may have one more while that leaves a fourth of what it
// has ([fair]), or fewer than Config.MaxPerClient. So however many requests one client makes,
// there are turns for others. Who may have none waits, at most Config.QueueTimeout, in one
// line for all servers that is at most Config.MaxQueue long. Where it is full, a client of
// which fewer wait than of others takes the place of the last one of the client with the most.
// Turns go round the clients that wait, within each to the one that came first; nobody waits
// who may have one.
//
// # Choice
//
// The server with the fewest connections in use is chosen, ties in turn. Of its idle
// connections the one returned last is taken, so that those which are too many grow old
// and end: the sweep ends them after Config.KeepAlive. That is 4 s where it is not set.
// Node.js, Apache and uvicorn close after 5 s: a proxy that keeps connections longer sends
// requests into closing ones, and 4 s leave a second for clocks and the network. nginx (75 s),
// Go and most others keep them longer: with those the price is one dial per connection that
// had no request for 4 s, of which the busy ones, being taken last in first out, know
// nothing. Servers that close earlier (gunicorn after 2 s) are noticed by the look before
// each request, see [Conn.Ask].
//
// # Failures
//
// A server that fails [failuresToEject] times in a row (dials, and what is returned as
// [Failed]) is ejected for [minEjection], then for twice as long after each failure that
// follows, up to [maxEjection]. When that time is up, one request at a time is sent to it,
// and the first answer takes it back. Failures of requests that began before an ejection
// do not prolong it, else those in flight would have it last for 30 s at once.
//
// If all are ejected, the one whose time ends first is tried all the same, by any number of
// requests. So a single server is never refused: while it is down a request costs
// one dial that fails at once, and the first request after it is back succeeds. A dial that
// fails is tried with the next server, each of them once: nothing has been sent yet.
// What fails for want of descriptors or ports here is nobody's failure.
//
// # Concurrency
//
// One mutex guards the pool; it is held for a few instructions, never while a socket is
// dialled, closed or used. A lent connection belongs to the goroutine that got it, or to
// two, one of which reads while the other writes; [Conn.Interrupt] may be called by any
// until the connection is returned. The sweep is the only goroutine that lasts; it begins with
// the first dial and ends with [Pool.Close].
package upstream
