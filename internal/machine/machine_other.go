//go:build !linux

package machine

import "time"

// read knows of nothing but the wall clock here.
func read() (machine, boot string, up time.Duration) { return "", "", 0 }
