package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/fastlimit/fastlimit/internal/namedfile"
)

// accessLogSettings fills server.AccessLog.
var accessLogSettings = section{
	name: "access_log", want: "settings, such as {file: /var/log/fastlimit/access.log}", where: "in access_log, indented more than access_log",
	settings: []setting{
		{
			name: "file", field: "File", value: appendedFile(), required: "name a file: {file: /var/log/fastlimit/access.log}",
			doc: "a file that lines are appended to, reopened on SIGHUP; `\"-\"` is standard output",
		},
		{name: "queries", field: "Queries", value: boolean(), def: "false", doc: "include the queries of requests and referers; applications put secrets in them"},
	},
}

// appendedFile is the path of a file that can be written, if there is such a file.
func appendedFile() value {
	return valueOf("path", textSchema(), func(d *decoder, n *node) (string, bool) {
		path, ok := d.text(n, "the path of a file")
		if !ok || path == "-" || d.machine.appendable == nil {
			return path, ok
		}
		if err := d.machine.appendable(path); err != nil {
			d.fail(n, quote(path)+" "+err.Error(), "name a file that fastlimit may write, in a directory that exists")
			return "", false
		}
		return path, true
	})
}

// appendable tells why a file cannot be appended to, as far as that shows without making it.
func appendable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		dir := filepath.Dir(path)
		if info, err = os.Stat(dir); err != nil {
			return fmt.Errorf("is in %s: %s", quote(dir), namedfile.Cause(err))
		}
		if !info.IsDir() {
			return fmt.Errorf("is in %s, which is not a directory", quote(dir))
		}
		return nil
	case err != nil:
		return errors.New("cannot be opened: " + namedfile.Cause(err))
	case info.IsDir():
		return errors.New("is a directory")
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|syscall.O_NONBLOCK, 0)
	if err != nil {
		return errors.New("cannot be opened: " + namedfile.Cause(err))
	}
	return f.Close()
}
