package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fastlimit/fastlimit/internal/namedfile"
)

// stateFile is the path of a file that is replaced again and again.
func stateFile() value {
	return valueOf("path", textSchema(), func(d *decoder, n *node) (string, bool) {
		path, ok := d.text(n, "the path of a file")
		if !ok || d.machine.replaceable == nil {
			return path, ok
		}
		if err := d.machine.replaceable(path); err != nil {
			d.fail(n, quote(path)+" "+err.Error(), "name a file in a directory that exists and that fastlimit may write to, such as /var/lib/fastlimit/state")
			return "", false
		}
		if mode := d.machine.mode(path); mode&0o077 != 0 {
			d.cfg.fileWarnings = append(d.cfg.fileWarnings, fmt.Sprintf("state_file: other users can access %s, which has mode %04o and contains a secret; it will be replaced by a file with mode 0600", quote(path), mode.Perm()))
		}
		return path, true
	})
}

// replaceable tells why a file cannot be replaced by another of its directory, as far as
// that shows without making one.
func replaceable(path string) error {
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("is in %s: %s", quote(dir), namedfile.Cause(err))
	case !info.IsDir():
		return fmt.Errorf("is in %s, which is not a directory", quote(dir))
	case !writable(dir):
		return fmt.Errorf("is in %s, to which fastlimit may not write", quote(dir))
	}
	if info, err = os.Stat(path); err != nil {
		if os.IsNotExist(err) {
			return nil
		}
		return errors.New("cannot be examined: " + namedfile.Cause(err))
	}
	switch {
	case info.IsDir():
		return errors.New("is a directory")
	case !info.Mode().IsRegular():
		return errors.New("is not a regular file")
	}
	return nil
}
