// Package conn has the connections of the server's traffic: listeners, the accept loop, eviction when there
// are too many, timeouts, the strict reader of HTTP/1 framing, and draining. It knows nothing of rules: a
// [Listener] gets its [Handlers], and these ask the connection of a request what they need ([Of]).
//
//		socket ─► door ─► AnswerNow ─► close                        a simple request that is the last
//		       └► Listener.take ─► Conns.admit                      room, or a 503
//		      ─► resident ─► Head.read ─► Answer                    for each simple request
//		      ─► Conn.Read ─► gate ─► fasthttp ─► Request           from the first other one on
//		Conns.sweep                                                 ends what takes too long
//
//	  - A door for each core accepts connections, and answers at once those that bring one
//	    simple request and want to close (door_linux.go, Linux only).
//	  - A resident answers simple requests with one read and one write each (head.go says
//	    which are simple). At the first other request fasthttp gets the connection
//	    (resident.go, Linux only).
//	  - A connection belongs to the goroutine that serves it. It notes its phase and
//	    since when ([Conn.BeginRequest]); others read that, and set deadlines.
//	  - A resident's connection that is quiet for some ticks is parked: it has no goroutine
//	    until it is used or has to end (park.go).
//	  - Every byte passes a strict reader of HTTP/1 framing before fasthttp parses it
//	    (gate.go).
//	  - A head that does not fit the 4 KiB of fasthttp's buffer goes to a second
//	    fasthttp server with a larger one, for one request (large.go).
//	  - Four read the head of a request, as none does the work of another: [Head] takes one
//	    pass over what residents answer, the gate checks the framing of what fasthttp gets,
//	    fasthttp parses what is odd, and package http1 what is forwarded. Below the level of a
//	    line all but fasthttp share http1's rules, and fuzz targets hold all to one reading.
//	  - One registry for all listeners ends what takes too long, and who has to make
//	    room (conns.go, evict.go). It resets the connections of banned peers (reset.go).
package conn
