//go:build !linux || (!amd64 && !arm64)

package upstream

import (
	"errors"
	"time"
)

// Sockets are not used directly here: Conn.raw is nil.
type (
	asking  struct{}
	reading struct{}
	writing struct{}
)

func (c *Conn) openRaw() {}

func (c *Conn) askRaw([]byte, []byte) (int, error) { return 0, errors.ErrUnsupported }

func (c *Conn) peek() (int, error) { return 0, errors.ErrUnsupported }

func (c *Conn) readRaw([]byte, time.Duration) (int, error) { return 0, errors.ErrUnsupported }

func (c *Conn) writeRaw([]byte) (int, error) { return 0, errors.ErrUnsupported }
