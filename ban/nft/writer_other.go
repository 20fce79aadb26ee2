//go:build !linux

package nft

import (
	"errors"
	"runtime"

	"github.com/fastlimit/fastlimit/ban/feed"
)

// errOther is the error of every method.
var errOther = &feed.Error{
	Class: feed.ClassUnsupported,
	Err:   errors.New("fastlimit/nft: bans in the kernel need nftables of Linux, and this is " + runtime.GOOS + ": leave out kernel"),
}

// Writer is a table of nftables, which only Linux has.
type Writer struct{}

var _ feed.Writer = (*Writer)(nil)

// New returns a writer whose methods fail.
func New(c Config) (*Writer, error) {
	return new(Writer), c.Validate()
}

// Open fails.
func (*Writer) Open() error { return errOther }

// Apply fails.
func (*Writer) Apply([]feed.Change) error { return errOther }

// Counters fails.
func (*Writer) Counters() (packets, bytes uint64, err error) { return 0, 0, errOther }

// Close does nothing.
func (*Writer) Close() error { return nil }
