package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/fastlimit/fastlimit/internal/migrate"
	"github.com/fastlimit/fastlimit/internal/migrate/nginxconf"
	"github.com/fastlimit/fastlimit/internal/namedfile"
)

// migrateCmd writes a configuration file to stdout. What it could not translate is in
// the file's comments; stderr only counts it, so that nobody overlooks it in a pipe.
type migrateCmd struct {
	Prefix string `placeholder:"DIR" help:"Folder for relative includes. Default: that of the file; with stdin, includes are not read."`

	Conf string `arg:"" placeholder:"FILE" help:"Main configuration file of nginx, or - for stdin; included files are read too."`
}

// unread says what to do about a file that cannot be read.
func unread(name string, err error) error {
	fix := "check the path"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: no such file; %s", name, fix)
	case errors.Is(err, syscall.EISDIR):
		fix = "name the file in it, usually nginx.conf"
	case errors.Is(err, fs.ErrPermission):
		fix = "run this as a user that may read it"
	}
	return fmt.Errorf("%s: %s; %s", name, namedfile.Cause(err), fix)
}

// maxConf is more than any configuration has, in bytes.
const maxConf = 64 << 20

// Run implements the command. Nothing is written to stdout unless all was read, so
// that a pipe into a file leaves none that looks complete.
func (c *migrateCmd) Run(sys *system) error {
	name, read := c.Conf, sys.stdin
	if c.Conf == "-" {
		name = "<stdin>"
	} else {
		f, err := os.Open(c.Conf)
		if err != nil {
			return unread(c.Conf, err)
		}
		defer f.Close()
		read = f
	}
	text, err := io.ReadAll(io.LimitReader(read, maxConf+1))
	switch {
	case err != nil:
		return unread(name, err)
	case len(text) > maxConf:
		return fmt.Errorf("%s: is larger than 64 MiB; is this an nginx configuration?", name)
	}
	files := nginxconf.Disk(c.Prefix)
	if c.Prefix == "" {
		files.Prefix = filepath.Dir(c.Conf)
	}
	if c.Prefix == "" && c.Conf == "-" {
		files = nginxconf.Files{} // nobody knows where they are
	}
	r, err := migrate.Nginx(name, string(text), files)
	if err != nil {
		return err
	}
	lost := 0
	for _, n := range r.Notes {
		if n.Lost {
			lost++
		}
	}
	// Without a rule it would be no configuration; the notes say why there is none.
	if len(r.Rules) == 0 {
		for _, n := range r.Notes {
			fmt.Fprintf(sys.stderr, "%s: %s\n", n.Place, n.Text)
		}
		return errors.New(name + ": contains no limit_req that can be translated")
	}
	if err := r.WriteYAML(sys.stdout); err != nil {
		return err
	}
	if lost > 0 {
		fmt.Fprintf(sys.stderr, "%d lines were not translated: the comments at the top list them\n", lost)
	}
	return nil
}
