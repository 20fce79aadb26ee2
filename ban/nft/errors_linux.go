package nft

import (
	"errors"
	"fmt"

	"github.com/fastlimit/fastlimit/ban/feed"
	"golang.org/x/sys/unix"
)

// classes are the meanings of the kernel's errors for changes of elements.
var classes = []struct {
	errno error
	class feed.Class
}{
	{unix.EPERM, feed.ClassDenied},
	{unix.EACCES, feed.ClassDenied},
	{unix.ENOENT, feed.ClassLost}, // missing elements have been dealt with
	{unix.ENFILE, feed.ClassFull},
	{unix.ENOMEM, feed.ClassBusy},
	{unix.ENOBUFS, feed.ClassBusy},
	{unix.EAGAIN, feed.ClassBusy},
	{unix.EINTR, feed.ClassBusy},
	{errSilent, feed.ClassBusy},
	{unix.EINVAL, feed.ClassElement},
	{unix.ERANGE, feed.ClassElement},
	{unix.EMSGSIZE, feed.ClassElement}, // it may accept half as many
	{unix.EEXIST, feed.ClassElement},
	{unix.EBUSY, feed.ClassElement},
}

// classified returns an error of a known class, with what was attempted.
func (w *Writer) classified(doing string, err error) error {
	if err == nil {
		return nil
	}
	class := feed.ClassOther
	for _, c := range classes {
		if errors.Is(err, c.errno) {
			class = c.class
			break
		}
	}
	if class == feed.ClassDenied {
		return w.denied(err)
	}
	return w.error(class, "%s: %w", doing, err)
}

func (w *Writer) error(class feed.Class, format string, args ...any) error {
	return &feed.Error{Class: class, Err: fmt.Errorf("fastlimit/nft: table inet "+w.config.Table+": "+format, args...)}
}

func (w *Writer) lost(what string) error { return w.error(feed.ClassLost, "%s", what) }

func (w *Writer) denied(err error) error {
	return w.error(feed.ClassDenied, "this process may not change nftables (%w): give it CAP_NET_ADMIN, "+
		"by AmbientCapabilities=CAP_NET_ADMIN in its unit, setcap cap_net_admin+ep on its binary, or --cap-add NET_ADMIN for its container, or leave out kernel", err)
}

func (w *Writer) taken(owner string) error {
	return w.error(feed.ClassTaken, "belongs to another process%s: stop that one, or give this one another name in kernel.table", owner)
}

// setupFailed returns why the table could not be made.
func (w *Writer) setupFailed(err error) error {
	if e, ok := errors.AsType[*feed.Error](err); ok {
		return e
	}
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return w.denied(err)
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return w.error(feed.ClassBusy, "cannot be made: %w", err)
	}
	return w.error(feed.ClassUnsupported, "cannot be made (%w): the kernel needs nftables for IPv4 and IPv6 (modprobe nf_tables; "+
		"CONFIG_NF_TABLES, CONFIG_NF_TABLES_INET, CONFIG_NF_TABLES_IPV4, CONFIG_NF_TABLES_IPV6), or leave out kernel", err)
}
