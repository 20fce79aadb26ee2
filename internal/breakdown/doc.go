// Package breakdown shows what the load consists of: how many requests come from each network, for each path,
// with each method and user agent, and with which status they are answered, whatever the rules. It finds
// floods that no rule looks at.
//
// # What is counted
//
// A [Tally] has a table for each level of each [By]: an address, its networks of 24 and 16 bits (IPv6: 64, 48
// and 32); a path, and its first segment with everything below. A table has [slots] groups and works as
// Space-Saving (Metwally, Agrawal, El Abbadi, 2005): a group without a slot takes that of the lightest group,
// with its count. So of N requests every group with more than N/slots is in the table, and no count is off by
// more. The part that may be another group's count is known and reported as the error.
//
// # What is shown
//
// A coarser group is shown instead of its parts: 300 addresses of one network as the network. A part that is
// half of it, or of the rest, is shown separately, such as a single client among the 300. So no request is in
// two groups.
//
// # Sampling
//
// A [Load] counts each request with probability 1/g, as g requests. g is 1 below [notesPerSecond], and a
// power of two above ([sketch.Grain]). A request that is not counted costs a random number.
// [toptalkers.Doubt] bounds the resulting error.
package breakdown
