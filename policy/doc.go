// Package policy turns a request into a verdict: who the client is, which rules apply,
// by which keys, and what the limiter decides. fastlimit's server and its replay of
// logs are built on it, and it can be used alone: it depends on no HTTP server, starts
// no goroutine and opens no files.
//
//	peer, forwarding header ─► Identity ─► client address ┐
//	request target ─► AppendPath ─► canonical path        ├─► Request ─► Engine.Decide ─► Verdict
//	Host header ───► AppendHost ─► canonical host         ┘
//	              Engine.Assemble
//
// To find out who the client behind a reverse proxy is, you only need an [Identity]:
//
//	clients, err := policy.NewIdentity(policy.Settings{TrustedProxies: proxies})
//	…
//	client, source := clients.ClientString(peer, r.Header[clients.Header()])
//
// [Lists] can be used alone, too. For everything together, make all three parts from one
// [Settings], once:
//
//	lim, err := fastlimit.New(fastlimit.Config{Rules: settings.Limits()}) // counts
//	engine, err := policy.New(lim, settings)                              // lists, matches, keys
//	clients, err := policy.NewIdentity(settings)                          // trusted proxies
//
// Then call [Engine.Assemble] and [Engine.Decide] for each request, as the example of
// [Engine] does. Compiling checks the settings. The functions whose names begin with Check
// check a single one; [PathHint] and [KnownMethods] help to find valid settings that are
// probably mistakes.
//
// # Order of a decision
//
// The allow and deny lists come first, together with the bans that operators have set while
// the engine was in use ([Bans]). The longest prefix of all that contains the client
// decides; of equal ones a ban, then the deny list. Then [fastlimit.Limiter.TakeAll]
// charges all rules that match the request and have a complete key. A rule does not apply
// if the request lacks a part of its key, or has an empty one: all such requests would
// share one bucket, and one client could have the others denied.
//
// If a rule has [Prefixes], its clients are also charged to the prefixes that they are in;
// see [Settings.Expanded].
//
// # One spelling
//
// Matches and keys use one canonical spelling of host and path, decoded exactly once.
// So a client cannot evade a limit by writing /login as /%6cogin, //login or
// /x/../login. An upstream that decodes a path twice can still be deceived.
//
// # What a request costs
//
// It costs what its rule says, or what a header from a trusted proxy names ([CostSource]).
// Such a header may name the client's rate, too ([RateSource]). Only Assemble knows who
// sent a header, so a Request that you fill in yourself has no such costs and rates unless
// you set Trusted.
//
// # Who the client is
//
// The client is the peer of the connection, unless that is a trusted proxy. Then one
// configured header is read from the right, which is the end that the trusted proxies
// wrote: the client is the first address that is not a trusted proxy. An element that
// is not an address ends the search at the last known hop. Nothing left of it is read,
// since anybody could have written it.
//
// A request is unnamed if a trusted proxy does not name the client, or does not name the
// original request that it asks about ([OriginalRequest]). Settings.OnUnnamed says what to
// do then.
//
// # Cost
//
// Nothing here allocates per request: headers, cookies, keys and paths are borrowed, or
// appended to buffers of the caller ([Scratch]). The limiter counts the decisions of rules.
// The caller counts those of lists and bans by [Verdict.List], since its counters outlive
// an engine when the configuration is reloaded.
package policy
