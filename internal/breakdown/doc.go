// Package breakdown tells what the load is made of: how many requests come from each network,
// for each path, by each method and user agent, and with which status they are answered,
// whatever rules there are. It finds floods that no rule looks at.
//
// # What is counted
//
// A [Tally] has a table for each level of each [By]: an address, its networks of 24 and 16 bits
// (IPv6: 64, 48 and 32); a path, and its first segment with all below. A table has [slots]
// groups and works as Space-Saving (Metwally, Agrawal, El Abbadi, 2005): a group that has no
// slot takes that of the lightest, and its count. So of N requests every group with more than
// N/slots is in the table, and no count is off by more. What may have been the count of another
// is known, and reported as the error.
//
// # What is shown
//
// A group of a coarser level is shown in place of its parts: 300 addresses of one network as the
// network. Parts that are half of it, or of the rest, are shown by themselves: a single client,
// also one beside the 300. So no request is in two groups.
//
// # Sampling
//
// A [Load] counts each request with probability 1/g, as g requests. g is 1 below
// [notesPerSecond], and a power of two above ([sketch.Grain]). A request that is not counted costs a
// random number. [toptalkers.Doubt] bounds the error that this makes.
package breakdown
