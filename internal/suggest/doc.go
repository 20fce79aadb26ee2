// Package suggest reads access logs and says which limits would have suited their clients: for a row of rates
// the burst that each client needs, and one rule that spares nearly all of them and leaves little to an
// attacker.
//
// # What a client needs
//
// A client needs the highest level that a leaky bucket reaches if it admits all of the
// client's requests, rounded up to whole requests: with a burst of that size nothing
// would have been denied, and with less something would. Levels are integers, in ticks as
// in package bucket. All rates of the row have ticks of a microsecond, the resolution of
// logs, so nothing is rounded. What a limit would have denied is counted by a second
// bucket that does deny. The limiter itself denies no more clients than that (P1) and
// admits up to half a burst more (P2).
//
// Many logs have whole seconds. All requests of a second then count as simultaneous, and
// clients need less in reality.
//
// # The choice
//
// For each rate, the suggested burst is what the wanted share of the clients needs at
// most ([Config].Spare), rounded up to a number that people write. Of the rates the one
// is suggested whose limit leaves a client over it the fewest requests within a minute,
// B + 60·r; of those equal the highest. Limits that take more than an hour to drain are
// left to tables that have no others: they are quotas.
//
// # Attacks
//
// A flood in the log would make every burst that spares its sender useless. So at each rate the clients that
// stand out are left out of the choice: those above the lowest gap among the 10 % of clients with the highest
// needs, across which the need grows 5-fold, to 100 or more. There are at most 10 % of them by definition, or
// one in fewer than ten clients, and none in fewer than five. Every one of them is denied by the suggested
// limit: it needs 5 times what is spared, and rounding adds half at most. A source that is rightfully that
// busy, such as a monitor, looks like an attack too; that is why the report names them. If the key names no
// client, only what is asked for (host, path, method), nothing is an attack: some paths are popular.
//
// # The busiest five minutes
//
// A botnet whose addresses each send little is no attack by address. So the report says whether three
// networks, of several clients each, or three paths have three quarters of the requests in the five busiest
// minutes (package breakdown). A second reading makes rules that count these networks, or clients on these
// paths; the networks are then left out of the choice like attackers. [Report.Extend] says what the second
// reading has to look at.
//
// # Memory
//
// The times of each client's requests are kept, in two bytes for most of them, and
// [Config].Memory bounds the sum: beyond it every second client is left out, chosen by a
// hash, until the rest fits; the report says so. The rest is a fair sample of the
// clients: percentiles keep their meaning, but a single busy client may be missing. Rows
// are computed one after the other and take 48 bytes per client.
package suggest
