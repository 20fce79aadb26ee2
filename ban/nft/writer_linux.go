package nft

import (
	"errors"

	"github.com/fastlimit/fastlimit/ban/feed"
	"github.com/google/nftables"
)

// Writer is a table of nftables. Its methods must not be called concurrently.
type Writer struct {
	config Config
	conn   *nftables.Conn
}

var _ feed.Writer = (*Writer)(nil)

// New returns a writer that has not made anything yet.
func New(c Config) (*Writer, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Writer{config: c.withDefaults()}, nil
}

var errNotYet = &feed.Error{Class: feed.ClassUnsupported, Err: errors.New("fastlimit/nft: not built yet")}

// Open implements [feed.Writer].
func (w *Writer) Open() error { return errNotYet }

// Apply implements [feed.Writer].
func (w *Writer) Apply([]feed.Change) error { return errNotYet }

// Counters implements [feed.Writer].
func (w *Writer) Counters() (packets, bytes uint64, err error) { return 0, 0, errNotYet }

// Close implements [feed.Writer].
func (w *Writer) Close() error { return nil }
