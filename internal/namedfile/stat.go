// Package namedfile reads the files that settings name, within bounds of size and time, and tells whether one
// has been replaced or written, by what the system says of it and without reading it.
package namedfile

import (
	"io/fs"
	"os"
)

// Look returns what is known of a file; nil for one that cannot be looked at.
func Look(name string) fs.FileInfo {
	info, err := os.Stat(name)
	if err != nil {
		return nil
	}
	return info
}

// Same reports whether two looks have seen the same file with the same size and time of
// change, or no file both times.
func Same(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
