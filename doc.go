// Package fastlimit is a rate limiter for edges under attack: it sheds the
// clients that exceed their limit at a cost near that of not limiting at all,
// in memory that does not grow with the number of clients, and never denies
// one client for what another did.
//
//	request ─► bucket table ──► first-seen filter ─► leaky sketch ──► exact leaky bucket
//	           known over its   first sight in this   below its       over its limit?
//	           limit: shed      window: pass          share: pass
//
// The sketch accuses, the exact bucket convicts, the table remembers the
// sentence.
//
// # Which name is for what
//
// To limit: [New] with a [Config]; [Limiter.Rule]; a [Key] by [Rule.AddrKey] or
// [Rule.BytesKey]; then [Rule.Allow] for a yes or no at the rule's cost,
// [Rule.Take] for other costs and the whole [Decision], or [Limiter.TakeAll]
// where several rules apply to a request. Package limit has all that a rule says
// ([RuleConfig]). [Rule.Wait] and [Limiter.WaitAll] wait
// for their units instead of being denied. [Rule.TakeUpTo] takes what fits,
// [Rule.Peek] asks and takes nothing, [Rule.Refund] gives back, [Rule.Reset]
// forgives.
//
// To operate: [NewPlan] says beforehand what memory and limits amount to,
// [Rule.Stats] and [Limiter.FirstSeenClients] what happens, and [Limiter.With]
// changes the configuration of a limiter that is in use.
//
// Package toptalkers alone needs [Rule.TopTalkers], [Rule.TalkerName] and
// [Rule.Epoch]; what nodes use to exchange counts needs these and
// [Rule.Identity], [Rule.ChargePeer], [Config].Nodes and
// [RulePlan].ClusterBound. Leave them alone otherwise.
//
// # Model
//
// A rule has a rate r in units per second and a burst B in units. A client's
// level is its units admitted and not yet leaked at r; a stream conforms to
// (r, B) if its level never exceeds B. T = 1/r. A request costs n units,
// usually one. θ ([RuleConfig].EscalateAt) is the share of B from which on a
// client is suspected. Windows and logs are below.
//
// # Promises
//
// P1, no false denial: a client whose own requests conform to (r, B) is never
// denied, whatever others send, forced collisions included. Only an exact
// bucket that counted this client alone denies. There are two exceptions, both an
// operator's choice: [FailClosed], and bans, below. P1 holds in the order in which
// the clock was read; see Time.
//
// P2, bounded excess: what is admitted for a client conforms to rate r and
// burst (1+θ)·B + 1 + C + R. The 1 is the first-seen request, of a unit at most, C the decisions
// for this client in flight at once, those included whose units are on their
// way back, and R, less than r·2 µs, comes from reading the clock in whole µs.
// With Strict the bound is B + R. With a shared store add r·J, J being how long
// a request waits for it at most: requests bunch on their way, and the store's
// bucket holds r·J more so that P1 survives that. A request whose context ends
// while it waits is denied, and what it was granted is given back: hanging up
// lifts no limit.
//
// P2 in a cluster of N nodes with a shared store, which tell each other their
// top talkers within L: in any s seconds all nodes together admit of a client
// at most 1.02·r·s + (1+N·θ)·B + N·r·L + N + C + r·J units, and (N-1)·f·(s/E + 2)
// that tables of top talkers did not tell, f at each node in each epoch E
// ([RulePlan].ClusterBound; the proof is in docs/decisions/0005-nodes.md). What
// a node is told makes suspects and never denies. Without a store N nodes keep
// the limit each by itself: N·r and N times the burst. Without such nodes a
// client that stays below r at every node is not suspected anywhere. While a
// change of a rule rolls through, nodes of the old and of the new one do not tell
// each other of it, and what they admit adds up.
//
// P3, flat memory: all memory is taken by [New].
//
// P4, the shared store sees suspects only: it is not asked while the table
// knows the answer, and at most one operation on a client's bucket is in
// flight for each node, refunds and resets included.
//
// P5, a store that is away is not an outage: [OnFailure] decides after J at
// the latest, by default from this node's table, which the store's answers
// have filled. No take is sent twice, and none is carried out when the policy
// has decided already.
//
// P6, no allocation and no lock that waits for I/O up to the shared store.
//
// # Bans
//
// With [RuleConfig].Ban a client that exact buckets of this node have denied After times
// within Within is denied everything by this rule for a time between For and Max
// ([StageBan]), and an eighth of After is enough while it is remembered for a ban: that is
// P1's second exception. It reaches nobody else. A client that conforms is never denied, so it
// has nothing to its account; and no denial counts for another client, whatever collides,
// makes room or overtakes (package ban). Neither does what a failure policy denies, what ends
// because the caller hangs up, or a request that found no place in line. Only [Rule.BanFor]
// bans for what somebody else says.
//
// A denial is dated by its request's reading of the clock. A request is denied by a ban only if the latest
// reading known lies before the ban's end; the first one that is read at the end or later is
// decided as if there had been no ban.
//
// P2 stands. A ban only denies, and a request that it denies is charged to nothing: a level
// that leaks meanwhile is what it would have been if the request had not been made.
//
// Memory for bans is part of the plan. Who is counted and who is banned is forgotten only to
// make room, or with time: a running ban never is. Bans are this node's, also where buckets are shared.
//
// # Waiting
//
// A request that waits ([RuleConfig].MaxWait) holds a place in this node's line for the
// client, and this rule has charged nothing for it. When it is the first there and its units
// fit, it goes through the rule's pipeline as if it had been made at that moment, so P2 holds for
// when requests are admitted, with the proof below.
//
// P1: a client within its limit never waits. One that conforms to (r, B + r·W), W being
// MaxWait, is not denied by this node's bucket as long as it finds places
// ([Config].Wait), since it is let in line if its units fit within W after all those
// ahead, which are the client's own. Others can take all places in all; that denies only
// what exceeds the client's own limit. With a shared store other nodes may take the units
// that it waits for. The choice is argued in docs/decisions/0019-places-in-line.md.
//
// Of several rules ([Limiter.WaitAll]) each decides as if it were the only one, so both hold for
// each by itself, however long another rule makes requests wait: a rule that a request fits
// charges it when it comes, and gives its units back if another rule denies it in the end; and
// time in another's line counts for nobody's W. C includes what waits for other rules
// after it was charged, as what is in flight. No denial counts towards a ban for want of a
// place or of a turn, or because the limit was lowered meanwhile.
//
// # Time
//
// A request is judged at its reading of the clock, in whole µs. A [ManualClock]
// reads the latest time that it was set to; an older one, by however much, moves
// nothing. Readings of the machine's clock count as themselves.
//
// Requests of one client that are in flight at once can overtake each other
// between reading the clock and reaching the bucket. One that would be denied
// is judged again at the latest reading known, so being overtaken never
// convicts. What remains is that the order has changed, so P1 says exactly:
//
// A client is never denied if its requests conform, in the order of their
// readings, to (r, B) where it has one in flight at a time; and to (r, B - C)
// where it has up to C units in flight at once. On the machine's clock take
// r·1 ms off as well in the second case. With a shared store its clock judges
// suspects, in a bucket that holds r·J more.
//
// Proof. Let s be the time at which a request is charged or denied; it is its
// reading t or, judged again, later. The bucket denies i at s_i only if, for
// some j charged before, the units charged from j on, with those of i, exceed
// B + r·(s_i - s_j). Those units were read (1) at s_j or later: all readings
// charged before i are known when i is judged again, so they lie in [s_j, s_i],
// and are at most (B - C) + r·(s_i - s_j). (An own reading may be known 1 ms
// late.) Or (2) before s_j: then they were in flight while j was charged, which
// are at most C. Sum up. With one in flight at a time (2) is empty, and nobody is
// judged again, so s = t and B needs no room.
//
// # Proof of P2
//
// Let A be the admitted stream of one client and level_A its leaky level. Let
// S be the level that the sketch reports for it.
//
// (a) Every hit of A but the first-seen one is charged to all cells of the
// client, and the cells receive the hits of others besides. A leaky level is
// monotone in arrivals, so each cell, and the least of them, S, is at least
// level_A - 1 after every hit. The first-seen hit of a later window adds
// nothing: a window lasts ((1+θ)·B + 2)·T or more, so a client that was
// forgotten has level_A = 0.
//
// (b) A hit is admitted unchecked only if S, its own cost included, stays below
// θ·B. Before and at such a hit level_A < θ·B + 1.
//
// (c) Let t0 be the time when S reaches θ·B. From then on, until S is below
// again, every hit is charged to the exact bucket X and admitted only if X
// stays within B (and a grace below r·1 µs; see package bucket). Two leaky levels that start apart and receive the same hits
// never get further apart, so level_A(t) <= level_A(t0) + X(t) < θ·B + 1 + B.
//
// Hits in flight when S crosses θ·B, or between the sketch and the bucket, add
// C. What is not a theorem: level(a+b) <= level(a) + level(b); each side would
// leak at r. So an admitted hit that is charged to X must be charged to the
// sketch too.
//
// P2 holds for all suspects while no more are alive than the table holds,
// [RulePlan].Buckets; it is planned for half as many. A table that is half full
// has room for each of them but for a chance of [RulePlan].Overflow. When more
// are alive, drained buckets make room first, then the lowest of those that
// stand where the new one may: its client starts again from an empty bucket.
// [RuleStats.Evictions] counts these buckets and [RuleStats.Forgiven] the units
// in them. Two levels that start L apart and receive the same hits never get
// further apart, so (c) holds for a client up to the units forgiven to it, and
// all clients together exceed P2 by no more than Forgiven. A client without
// a bucket has no limit: where suspects outnumber buckets for long, some of them
// get all they ask for.
//
// # Fixed windows
//
// A rule that counts in windows ([FixedWindow]) admits N units in each period P of
// the wall time. Its level is the count of the window that is current, so P1 and P2
// speak of windows. A request counts in the window in which the exact tier judges
// it: for one that is in flight when a window ends that may be the next.
//
// P1: a client is denied only if what was admitted to it in the window in which the
// request is judged exceeds N with the request. So one that sends at most N in a window, one
// at a time, is never denied, nor is one with up to C units in flight at once that
// sends at most N - C. With [RuleConfig].CountDenied what it was denied counts too.
//
// P2: in one window a client is admitted (1+θ)·N + 1 + C at most; so up to twice
// that at once, where one ends and the next begins. That a window's counts add up,
// count(a+b) = count(a) + count(b), is a theorem, so the proof is a sum. (a) Two hits
// that the filter admits are 5/4·P apart, and no window lasts longer than 8/7·P,
// also while the wall time is slowed down: 1. (b) A hit that passes the sketch has
// been charged to all cells of the client in this window, where none of them falls;
// so S is at least the sum of such hits, and the last one left it below θ·N. Hits in
// flight reach the cells in different orders: C. (c) The exact bucket admits N. Hits
// that it decides need not be in the sketch. As for buckets, evictions add what they
// have forgiven.
//
// With a shared store windows are those of the store's clock, and nothing is added
// for J: its bucket holds N. What it answers carries the store's time, and so its window. A
// verdict from there must not outlive that window: this node's wall time is never
// behind the store's clock. For let an answer say M. Its operation was sent at s, and
// the store read M later, so M is at least what its clock said at s; the line goes
// through (s, M) or above, and faster than clocks drift apart. (Where the store's clock
// is set forward, what the node knows is right again with the next answer.) It leads
// by J at most, where answers come. So what passes unchecked within J of the
// end of a window of the store's may count in the next here, at most θ·N + 1 more in
// that window by the store's clock. All nodes of a cluster admit (1+n·θ)·N + n + C in
// a window, n being the nodes, whether they exchange counts or not
// ([RulePlan].ClusterWindow): (a) and (b) hold at each.
//
// What is given back to a window that is over is gone. The units of a request in
// flight when a window ends may go back to the next; they are among C.
//
// # Sliding windows and logs
//
// A sliding window ([SlidingWindow]) of N units per P has the periods of fixed windows.
// Its level is the count of the current one and, rounded up, that of the one before
// times the share of it that the P ending now would cover. A log ([SlidingLog])
// knows the time of each unit; its level is the units of the P ending now.
//
// P1: a client is denied only if what was admitted to it has a level that exceeds N
// with the request, when the request is judged. As above one in flight at a time needs
// no room, and C units take C.
//
// P2: the level of what a client is admitted never exceeds (1+θ)·N + 1 + C. Of a log
// that is so many units in any P. Of a sliding window it is so many at once, also where
// a period ends. Over time such a window admits N at the end of a period and then N
// evenly over the next, so in a P that is not aligned just below twice as much: of the
// period before it knows how many units there were, not when.
//
// The proof is that of fixed windows, since level(a+b) <= level(a) + level(b) holds here
// too. (a) Hits that the filter admits are 5/2·P apart, and two periods in a row last
// 16/7·P at most; of a log they are P apart. So no two of them count at once: 1. (b) The sketch counts in aligned periods, with θ·N/2 for a
// threshold, so less than that passes it in one of them. What counts at any time is of two
// of them at most: θ·N. (c) The exact bucket admits N. Evictions add what they have
// forgiven, weighted as of then.
//
// With a shared store its clock weighs what the store admits. A window of this node's
// leads it by J at most, so that by the store's clock θ·N·J/2P more may count. A log
// says when, so its store has no r·J more either: requests that are sent N in each P and
// bunch on their way by J can exceed it. P1 is for N in P + J there. A store that has
// been away is told of the units of the last P/2, of several nodes the most that one has:
// in any P it admits N, unless it has lost what it had, and each node N in its place.
//
// A log is the times of the N latest units of each suspect, of 8 bytes each, and
// [NewPlan] refuses a rule whose share of the memory holds those of fewer than 1024
// clients.
//
// # P1 with a shared store
//
// Each request is charged J after it was made at the latest: to the table when it
// is decided, to the store by the patience of its take. Charges that are late
// by up to J fill a bucket to B + r·J at most if the requests conform, and that
// is what it holds. Table and store are joined by maximum: each is the level of
// some of the requests, so the larger is below that of all. What the table knew
// is dated when it is sent, since it leaks on its way; and where units were given
// back, it does not count until what was known before has leaked. The proof is in
// docs/decisions/0009-late-hung-up-given-back.md.
//
// # Across changes
//
// A limiter that goes on with another ([Limiter.With]) keeps the units in each bucket, at
// most a full one of the new limit. From the change on P2 holds as if a client had come with
// what its exact bucket held; what the old limit let pass unchecked, θ·B + 1 at most, a
// change forgives once. C includes the decisions of the old limiter. P1 holds for
// a client that conforms to the stricter limit as long as both are in use. The proof is in
// docs/decisions/0033-another-limit.md.
//
// # What it gets wrong
//
// Sketch levels err upwards, so with too little memory everyone is a suspect
// and is checked exactly: slower, never wrong. A botnet whose sources each stay
// under the limit is not blocked.
package fastlimit
