// Package expel has the kernel drop what banned clients send, and ends the connections that
// they have.
//
//	denial of stage ban ─► Expeller.Expel ─┬─► refused: the client gets its 429s, and keeps its connections
//	                                       └─► feed.Feed.Add ─► conn.Conns.Reset
//	accept ─► feed.Feed.Holds ─► reset
//
// # Whom the kernel is given
//
// Dropping packets is worse than denying requests: it concerns everything that comes from the
// address, the client is not told, and whoever shares the address goes with it. So it takes a
// client that cannot be anybody else: the peer of a TCP connection whose handshake has
// completed (nobody can forge the address of one), that was denied in this very moment, by a
// rule that counts by address alone, or by an operator. Never:
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
// Add makes Holds true before Reset looks for connections. A connection that is
// accepted meanwhile is looked at again after it is among those that Reset looks at.
//
// # While the kernel does not do as it is told
//
// Holds says false then, and in shadow mode. Nothing is reset, and requests are
// denied as without a kernel.
package expel
