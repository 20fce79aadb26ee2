// Package replay judges an access log by a policy in the log's own time: which
// requests would have been denied, by which rule, and to whom.
//
// [Read] only reads: it hands the same requests in the same order to another judge.
//
// # Order
//
// Servers write a line when a request ends, so lines in real logs are out of order
// by a minute and more. Requests are judged by their time stamps, those with equal
// stamps in the order of the log. A file is read completely and sorted: 48 bytes a
// line, plus the text that the rules look at, which equal recent lines share. The
// list is kept in pieces that are sorted and then merged, so growing copies nothing (TestMemoryOfALine); a
// process that replayed 3 million lines under a rule by address took 55 bytes for each. A stream, and a file
// with more than 1 GiB of records, passes through a window instead: a line is judged once a line two minutes
// younger has been read. A line that comes even later is judged at the time reached by then, and counted as
// late.
//
// Several logs are merged by time, always reading the one that is furthest behind, so rotated logs may come
// in any order and logs of several servers are merged, in a window too.
//
// Many servers log whole seconds, so a burst within a second is judged as if it came at once. Fractions of a
// second count if a log has them, down to microseconds. A silence longer than any rule remembers is shortened
// to that length, which no rule can notice (TestLongSilence).
//
// # Fields
//
// The common and the combined format give rules the client, the method and the path;
// combined also the headers Referer and User-Agent, and Apache's vhost_combined the
// host. Lines of JSON give what they have: those of Caddy all headers except the ones
// it redacts, others what a [FieldMap] names. A rule that needs a field that no line
// has does not apply, and [Report.Warnings] says so. The client is the address in the
// log; whether that is a proxy's is decided by the server that wrote it.
//
// # Oracle
//
// An exact leaky bucket, window or log runs next to the limiter for each client and enforced rule, in integer
// arithmetic. It shares no code with the limiter and uses no digests, so collisions cannot hide. It holds
// what the limiter admitted for the client, and checks both promises of the limiter: a denial when the
// request would have fitted is a false denial (P1: there is none), and a level above the limit is the excess
// (P2). A second one decides for itself, and shows what exact ones alone would have denied. This takes about
// 200 bytes per client and rule, and 16 more for each request within the period of a log, so memory here
// grows with the number of clients, unlike in the limiter.
package replay
