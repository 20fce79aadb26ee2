//go:build !linux

package systemd

// monotonic is not needed without systemd.
func monotonic() int64 { return 0 }
