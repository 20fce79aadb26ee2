// Package expel makes the kernel drop the packets of banned clients, and ends their connections.
//
//	denial of stage ban ─► Expeller.Expel ─┬─► refused: the client gets its 429s, and keeps its connections
//	                                       └─► feed.Feed.Add ─► conn.Conns.Reset
//	accept ─► feed.Feed.Holds ─► reset
//
// # Which clients the kernel gets
//
// Dropping packets is worse than denying requests: it affects everything from the address, the client is not
// told, and everybody who shares the address is dropped too. So the client must be certain: the peer of a TCP
// connection whose handshake has completed (nobody can forge its address), which was denied at this moment,
// by a rule that counts by address alone, or by an operator. Never:
//
//   - clients that a header or a PROXY header has named: their packets come from the proxy,
//     and whoever could write the header could have anybody dropped
//   - prefixes with an address on the allow list, of a trusted proxy, or of a balancer that sends
//     PROXY headers, even if that is one address of a /24
//   - this machine's own addresses and gateways: a gateway that translates addresses, as in front
//     of containers, is the peer of all clients
//   - peers with forwarding headers on the connection, which are proxies that nobody has
//     configured. A client may pretend to be one. It gains that it is denied like before.
//
// Each refusal is counted by its reason ([Expeller.Refused]).
//
// # Why nothing survives
//
// Add makes Holds true before Reset looks for connections. A connection that is accepted meanwhile is checked
// again after it is among those that Reset finds.
//
// # While the kernel fails
//
// Holds is then false, as in shadow mode. Nothing is reset, and requests are denied as without a kernel.
package expel
