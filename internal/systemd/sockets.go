// Package systemd exchanges with a service manager such as systemd what it passes to a process, listening
// sockets ([sd_listen_fds]), and what it expects from it, messages ([sd_notify]).
//
// [sd_listen_fds]: https://www.freedesktop.org/software/systemd/man/latest/sd_listen_fds.html
// [sd_notify]: https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html
package systemd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/coreos/go-systemd/v22/activation"
)

// scheme begins an address that names a socket of the service manager.
const scheme = "systemd:"

// Name returns the name of the socket, if the address names one.
func Name(address string) (name string, ok bool) { return strings.CutPrefix(address, scheme) }

// NameProblem says what is wrong with a name, or "". systemd permits more.
func NameProblem(name string) string {
	ok := name != "" && len(name) <= 255 && (name[0]|0x20 >= 'a' && name[0]|0x20 <= 'z')
	if !ok || strings.ContainsFunc(name, func(r rune) bool {
		return !(r|0x20 >= 'a' && r|0x20 <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
	}) {
		return fmt.Sprintf("%q is not the name of a socket", name)
	}
	return ""
}

// passed are the sockets that the process was started with. They stay open: a listener has a copy, and may be
// closed and opened again.
var passed = sync.OnceValue(func() []*os.File { return activation.Files(true) })

// Listen returns the socket of that name as a listener. Closing it leaves its queue to the next owner of the
// socket.
func Listen(name string) (net.Listener, error) {
	f, err := find(passed(), name)
	if err != nil {
		return nil, err
	}
	ln, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("the socket is not one that accepts connections (%w): in its unit, write ListenStream= and Accept=no", err)
	}
	if u, ok := ln.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // the path is the unit's
	}
	return ln, nil
}

func find(files []*os.File, name string) (found *os.File, err error) {
	for _, f := range files {
		switch {
		case f.Name() != name:
		case found != nil:
			return nil, errors.New("two sockets have this name: make a socket unit for each, with its own FileDescriptorName=")
		default:
			found = f
		}
	}
	if found == nil {
		return nil, fmt.Errorf("no socket of this name was passed (%s): start fastlimit by a socket unit with FileDescriptorName=%s, or listen on host:port", these(files), name)
	}
	return found, nil
}

// Unused reports passed sockets that none of the addresses names: their clients would wait forever.
func Unused(addresses []string) error { return unused(passed(), addresses) }

func unused(files []*os.File, addresses []string) error {
	var errs []error
	for _, f := range files {
		if address := scheme + f.Name(); !slices.Contains(addresses, address) {
			errs = append(errs, fmt.Errorf("the socket unit passes %q, on which nothing listens: write listen: %s, or stop and disable the unit", f.Name(), address))
		}
	}
	return errors.Join(errs...)
}

func these(files []*os.File) string {
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	if len(names) == 0 {
		return "there is none at all"
	}
	return "there are " + strings.Join(names, ", ")
}
