//go:build !linux

package systemd

// monotonic is of no use without systemd.
func monotonic() int64 { return 0 }
