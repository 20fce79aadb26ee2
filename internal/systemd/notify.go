package systemd

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Notifier reports the state of the process to the service manager. Without one it does nothing. It is safe
// for concurrent use.
type Notifier struct {
	Log *slog.Logger

	failed atomic.Bool // to log it only once
}

// Ready reports that clients are being served, with a status.
func (n *Notifier) Ready(status string) { n.send(daemon.SdNotifyReady + "\nSTATUS=" + status) }

// Reloading reports that the configuration is being read again. Ready ends it.
func (n *Notifier) Reloading() {
	n.send(fmt.Sprintf("%s\nMONOTONIC_USEC=%d", daemon.SdNotifyReloading, monotonic()))
}

// Stopping reports that the process is about to end.
func (n *Notifier) Stopping() { n.send(daemon.SdNotifyStopping + "\nSTATUS=draining") }

// Alive feeds the watchdog.
func (n *Notifier) Alive() { n.send(daemon.SdNotifyWatchdog) }

func (n *Notifier) send(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil && !n.failed.Swap(true) {
		n.Log.Warn("the service manager cannot be told how this process is", slog.Any("error", err))
	}
}
