package conn

// framing is the part of a connection that reads requests. Used by the
// goroutine that serves the connection.
type framing struct {
	gate   gate
	served uint32 // requests handled
}

// filter lets through what was read from the socket, as far as the gate lets
// it pass.
func (f *framing) filter(p []byte, n int, err error) (int, error) {
	if n == 0 {
		return 0, err
	}
	if n = f.gate.pass(p[:n]); n == 0 {
		_, err = f.gate.over()
	}
	return n, err
}

// nextRequest notes that the next request is handled. It returns the violation
// that the gate has seen in it so far, nil if there is none.
func (f *framing) nextRequest() *Violation {
	f.served++
	return f.broken()
}

// broken is the violation in the request that is being handled, nil if there is
// none: in its head or in what was read of its body.
func (f *framing) broken() *Violation {
	if f.served == f.gate.wrong {
		return f.gate.problem
	}
	return nil
}

// complete reports whether the request that is being handled has been read to
// its end. fasthttp takes the end of the connection for the end of a trailer.
func (f *framing) complete() bool {
	g := &f.gate
	return g.heads > f.served || g.state == gateRequestLine || g.state == gateClosed || g.wrong > f.served
}

// isLast reports whether the request that is being handled must be the last of
// its connection. It is known once the body has been read.
func (f *framing) isLast() bool { return f.served == f.gate.last }

// violated is the violation in the request that is being parsed, nil if it has
// none.
func (f *framing) violated() *Violation {
	if f.served+1 == f.gate.wrong {
		return f.gate.problem
	}
	return nil
}
