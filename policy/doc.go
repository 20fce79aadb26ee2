// Package policy turns a request into a verdict: who the client is, which
// rules apply, by which keys, and what the limiter says. It knows nothing of
// HTTP servers or log files; both the server and the replay of logs use it.
//
//	peer, forwarding header ─► Identity ─► client address ┐
//	request target ─► AppendPath ─► canonical path        ├─► Request ─► Engine.Decide ─► Verdict
//	Host header ───► AppendHost ─► canonical host         ┘
//	              Engine.Assemble
//
// # Order of a decision
//
// The allow and deny lists come first: the longest prefix that holds the
// client decides, and of two equal ones deny. Then all rules whose match
// fits the request and whose key is complete are charged by
// [fastlimit.Limiter.TakeAll]. A rule with a key part that the request lacks,
// an empty one included, does not apply: all requests without it would share
// one bucket, and one of them could have the others denied.
//
// # One spelling
//
// Rules match, and keys are made of, one canonical spelling of host and path,
// decoded exactly once, so that a limit cannot be passed by writing /login as
// /%6cogin, //login or /x/../login. What an upstream makes of a request that
// it decodes twice is not known here.
//
// # Who the client is
//
// The socket's peer, unless that is a trusted proxy. Then one configured
// header is read from the right, the end that the trusted proxies wrote: past
// the trusted addresses, up to the first other one. At the first element that
// is no address the walk ends at the last hop that is known, and never goes
// further left, where anybody may have written anything.
//
// # Cost
//
// Nothing here allocates per request: headers, cookies, keys and paths are
// borrowed or appended to buffers of the caller ([Scratch]). Decisions of
// rules are counted by the limiter. Those of the lists are not counted here:
// [Verdict.List] says what to count, and counters outlive an engine when the
// configuration is reloaded.
package policy
