//go:build !linux

package conn

// hangups notices that clients leave by reading ahead.
type hangups struct{}

func (*hangups) watch(c *Conn, left func()) (stop func(), err error) { return readAhead(c, left) }

func (*hangups) close() {}
