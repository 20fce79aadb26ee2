// Package replay judges an access log by a policy, in the log's own time: what
// would have been shed, by which rule, and whom.
//
// # Order
//
// Servers write a line when a request ends, so real logs are out of order by
// up to a minute and more. Requests are judged by their time stamps, those of
// one stamp in the order of the log. A file is read whole and sorted: 48 bytes
// a line and the text that the rules look at, once for each value of it that
// was seen lately. The list is kept in pieces that are sorted and then merged,
// so nothing is copied as it grows (TestMemoryOfALine); a process that replayed
// 3 million lines under a rule by address took 55 bytes for each. A file of more
// than 1 GiB of records, and a stream, pass through a window instead: a line is
// judged once one that is two minutes younger has been read. A line that comes
// later still is judged at the time reached by then, and counted as late.
//
// Several logs are read side by side, always on with the one that is behind in
// time, so that a rotated log may come in any order and the logs of several
// servers are merged, in a window too.
//
// Many servers log whole seconds, so a burst within a second is judged as if it
// came at once. Fractions of a second count where a log has them, down to
// microseconds. A silence longer than any rule remembers is shortened to that
// length, which no rule can tell.
//
// # Fields
//
// Common and combined format give rules the client, the method, the path and,
// combined only, the headers Referer and User-Agent; Apache's vhost_combined
// gives the host besides. Lines of JSON give what they have: those of Caddy all
// headers but the ones it redacts, those of others what a [FieldMap] names. A
// rule that needs what no line has does not apply, and [Report.Warnings] says
// so. The client is the address in the log: whether it is that of a proxy is up
// to the server that wrote it.
//
// # Oracle
//
// Beside the limiter runs an exact leaky bucket for every client and enforced
// rule, in integer arithmetic that shares no code with the limiter and no
// digest, so that collisions cannot hide. It holds what the limiter admitted
// for this client, and gives judgement on both promises of the limiter: a
// denial at a time when the request would have fitted is a false denial (P1:
// there is none), and what stands above the burst is the excess (P2). A
// second bucket decides for itself and tells what exact buckets alone would
// have denied. This takes about 150 bytes for each client and rule, so here,
// unlike in the limiter, memory grows with the number of clients.
package replay
