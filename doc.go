// Package fastlimit is a rate limiter for edges under attack. Denying a client
// that exceeds its limit costs little more than not limiting at all. Memory does not grow
// with the number of clients, and no client is denied because of what another did.
//
//	request ─► bucket table ──► first-seen filter ─► leaky sketch ──► exact leaky bucket
//	           known over its   first sight in this   below its       over its limit?
//	           limit: shed      window: pass          share: pass
//
// The sketch accuses, the exact bucket convicts, the table remembers the sentence.
//
// # In ten lines
//
//	lim, err := fastlimit.New(fastlimit.Config{Rules: []fastlimit.RuleConfig{
//		{Name: "per-ip", Rate: fastlimit.Rate{N: 100, Per: time.Second}, Burst: 200},
//	}})
//	if err != nil {
//		log.Fatal(err) // says what is wrong with which field
//	}
//	perIP, _ := lim.Rule("per-ip") // once, not per request
//	…
//	if !perIP.Allow(perIP.AddrKey(clientAddr)) {
//		http.Error(w, "too many requests", http.StatusTooManyRequests)
//	}
//
// Middlewares for net/http, fasthttp and gRPC do this with the right headers: see the
// middleware folder and docs/embedding.md.
//
// # Which call for which job
//
//   - one rule, yes or no: [Rule.Allow]
//   - one rule, with cost and reason: [Rule.Take]
//   - several rules, all or nothing: [Limiter.TakeAll]
//   - wait instead of being denied: [Rule.Wait], [Limiter.WaitAll]
//   - take as much as fits: [Rule.TakeUpTo]
//   - ask without taking: [Rule.Peek]
//   - the cost is known only afterwards: [Rule.Settle]
//   - give units back, forgive a client: [Rule.Refund], [Rule.Reset]
//   - another limit for this client: [Rule.Tier], [Rule.AtRate]
//   - list bans and lift them: [Rule.Bans], [Rule.Unban]
//   - metrics: [Rule.Stats], [Limiter.FirstSeenClients]
//   - who sends most: [Rule.TopTalkers], with package toptalkers
//   - memory and bounds, before a limiter is made: [NewPlan]
//   - change the configuration in use: [Limiter.With]
//   - keep state over a restart: [Limiter.Save], [Load], [Limiter.Merge]
//   - buckets that several nodes share: [Config].Store, from package bucket/redisstore or
//     bucket/pgstore
//   - choose rules by request, as the server does: package policy
//
// A key is made by the rule that it is used with: [Rule.AddrKey] groups addresses by the
// rule's prefixes, and [Rule.BytesKey] takes anything else. Rule settings and decisions are
// types of package limit; the names here are aliases of them.
//
// # What it promises
//
//   - P1: a client within its limit is never denied, no matter what others send, even if
//     they force hash collisions.
//   - P2: a client over its limit gets the rate and at most 1.5 bursts + 1 at once
//     (with Strict one burst), plus its requests in flight.
//   - P3: [New] allocates all memory up front.
//   - P4: a shared store is asked only about suspects, clients near their limit, with at most
//     one operation per client in flight.
//   - P5: if the store cannot be reached, [OnFailure] decides.
//   - P6: denying a client that is known to be over its limit takes one lock-free lookup and
//     one counter. No decision allocates or holds a lock during I/O.
//
// docs/promises.md states them exactly, with proofs, for buckets, windows, logs, bans,
// waiting requests, configuration changes and clusters.
//
// What it gets wrong: the sketch's estimates err on the high side. With too little memory every
// client becomes a suspect and is checked exactly, which is slower but never wrong. A botnet whose sources each stay
// under the limit is not blocked.
package fastlimit
