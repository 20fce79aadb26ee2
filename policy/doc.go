// Package policy turns a request into a verdict: who the client is, which
// rules apply, by which keys, and what the limiter says. It is what fastlimit's
// server and its replay of logs have in common, and can be used by itself: it
// knows nothing of HTTP servers or log files, starts no goroutine and opens
// nothing.
//
//	peer, forwarding header ─► Identity ─► client address ┐
//	request target ─► AppendPath ─► canonical path        ├─► Request ─► Engine.Decide ─► Verdict
//	Host header ───► AppendHost ─► canonical host         ┘
//	              Engine.Assemble
//
// To find out who the client behind a reverse proxy is, an [Identity] is all you
// need:
//
//	clients, err := policy.NewIdentity(policy.Settings{TrustedProxies: proxies})
//	…
//	client, from := clients.ClientString(peer, r.Header[clients.Header()])
//
// [Lists] can be used alone, too. For matching and keys, compile all
// [Settings] with [New], let [Engine.Assemble] read each request, and
// [Engine.Decide] on it. Settings are checked when they are compiled: the
// functions whose names begin with Check do it for one of them, and [PathHint]
// and [KnownMethods] find what is valid but probably a mistake.
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
// The peer of the connection, unless that is a trusted proxy. Then one configured
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
