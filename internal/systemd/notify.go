package systemd

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Notifier tells the service manager how the process is. Without a service manager it does
// nothing. It is safe for concurrent use.
type Notifier struct {
	Log *slog.Logger

	failed atomic.Bool // once is enough to say
}

// Ready says that clients are served, by status.
func (n *Notifier) Ready(status string) { n.send(daemon.SdNotifyReady + "\nSTATUS=" + status) }

// Reloading says that the configuration is read again. Ready ends it.
func (n *Notifier) Reloading() {
	n.send(fmt.Sprintf("%s\nMONOTONIC_USEC=%d", daemon.SdNotifyReloading, monotonic()))
}

// Stopping says that the process is about to end.
func (n *Notifier) Stopping() { n.send(daemon.SdNotifyStopping + "\nSTATUS=draining") }

// Alive keeps the watchdog quiet.
func (n *Notifier) Alive() { n.send(daemon.SdNotifyWatchdog) }

func (n *Notifier) send(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil && !n.failed.Swap(true) {
		n.Log.Warn("the service manager cannot be told how this process is", slog.Any("error", err))
	}
}
