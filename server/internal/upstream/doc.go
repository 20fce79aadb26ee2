// Package upstream is the pool of connections of a reverse proxy to its upstream servers. It speaks no HTTP:
// it dials, keeps, bounds, chooses and watches connections. The caller knows where a message ends.
//
// # Bounds
//
// A connection is lent, idle, being dialled or being closed; all of these, to all servers together, are at
// most Config.MaxConnections. A request first needs one of as many turns. With a turn there is always a
// connection or room for one; an idle connection to another server is closed to make room.
//
// Clients share the turns: a client that has some may have one more while that leaves a fourth of what it has
// ([fair]), or fewer than Config.MaxPerClient. So however many requests one client makes, there are turns for
// others. A request whose client may have none waits, at most Config.QueueTimeout, in one queue for all
// servers that is at most Config.MaxQueue long. If it is full, a client with fewer waiting requests than
// others takes the slot of the last one of the client with the most. Turns rotate among the clients that
// wait, first come, first served within each; no request waits whose client may have a turn.
//
// # Choice
//
// The server with the fewest connections in use is chosen, rotating among equals. Of its idle connections the
// one returned last is taken, so that superfluous ones grow old and end: the sweep ends them after
// Config.KeepAlive, by default 4 s. Node.js, Apache and uvicorn close after 5 s: a proxy that keeps
// connections longer sends requests into closing ones, and 4 s leave a second for clocks and the network.
// nginx (75 s), Go and most others keep them longer: with those the price is one dial per connection without
// a request for 4 s, which busy ones, taken last in first out, do not pay. Servers that close earlier
// (gunicorn after 2 s) are noticed by the check before each request, see [Conn.Ask].
//
// # Failures
//
// A server that fails [failuresToEject] times in a row (dials, and what is returned as [Failed]) is ejected
// for [minEjection], then for twice as long after each failure that follows, up to [maxEjection]. After that
// time, one request at a time is sent to it, and the first answer takes it back. Failures of requests that
// began before an ejection do not prolong it, or those in flight would extend it to 30 s at once.
//
// If all are ejected, the one whose time ends first is tried anyway, by any number of requests. So a single
// server is never refused: while it is down a request costs one dial that fails at once, and the first
// request after it is back succeeds. A dial that fails is tried with the next server, each of them once:
// nothing has been sent yet. Failures for lack of local descriptors or ports count against no server.
//
// # Concurrency
//
// One mutex guards the pool; it is held for a few instructions, never while a socket is
// dialled, closed or used. A lent connection belongs to the goroutine that got it, or to
// two, one of which reads while the other writes; [Conn.Interrupt] may be called by any
// until the connection is returned. The sweep is the only goroutine that lasts; it begins with
// the first dial and ends with [Pool.Close].
package upstream
