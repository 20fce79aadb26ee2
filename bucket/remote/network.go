package remote

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/fastlimit/fastlimit/bucket"
)

// Network has a driver's classes of what fails before a store has answered.
type Network struct {
	Unsupported, NoFile, Protocol, Refused, Timeout, Reset *Class

	// Foreign reports whether an error says that what answers is not the store, or is not
	// trusted.
	Foreign func(error) bool
}

// Classify returns the class of an error, or nil if only its text may tell.
func (n *Network) Classify(err error) *Class {
	var netErr net.Error
	var name *net.DNSError
	switch {
	case errors.Is(err, bucket.ErrAlgorithm):
		return n.Unsupported
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return n.NoFile
	case n.Foreign(err):
		return n.Protocol
	case errors.As(err, &name) && !name.IsTimeout:
		return n.Refused
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return n.Refused
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return n.Timeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return n.Reset
	}
	return nil
}
