package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/fastlimit/fastlimit/internal/cli"
	"github.com/fastlimit/fastlimit/internal/replay"
)

// logFlags name the logs of the commands that read some, replay and suggest.
type logFlags struct {
	Fields map[string]string `mapsep:"," placeholder:"NAME=FIELD" help:"In JSON logs, the fields that hold time, client, method, target, host, request, header:NAME and cookie:NAME; dots reach nested fields. For example time=time_iso8601,client=remote_addr. Default: the fields of Caddy and fastlimit."`

	Log []string `arg:"" placeholder:"FILE" help:"Access logs of one or more servers, including rotated ones, in any order. Common or combined format (nginx, Apache) or JSON lines (Caddy, fastlimit; others with --fields), plain or gzip; - is stdin."`
}

// checkStdin refuses stdin beside other logs.
func (c *logFlags) checkStdin(command string) error {
	if slices.Contains(c.Log, "-") && len(c.Log) > 1 {
		return cli.Usagef("- cannot be combined with other logs; name files, or pipe all of them: cat LOG… | fastlimit %s -", command)
	}
	return nil
}

// checkFields checks the map of fields before a log is opened: reading may take minutes.
func (c *logFlags) checkFields() error {
	if err := replay.FieldMap(c.Fields).Check(); err != nil {
		return cli.Usagef("--fields: %w", err)
	}
	return nil
}

// read opens the logs and has them read, with a progress bar if stderr is a terminal. what
// is done with the lines, once they are read, is for the bar.
func (c *logFlags) read(sys *system, command, what string, with func([]replay.Log, replay.ReadConfig) error) error {
	files, size, err := c.open(sys)
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	if err != nil {
		return err
	}
	bar := cli.NewProgress(sys.stderr)
	defer bar.Clear()
	bar.Bytes(size)
	var logs []replay.Log
	for i, f := range files {
		name := c.Log[i]
		if name == "-" {
			name = "<stdin>"
		}
		logs = append(logs, replay.Log{Name: name, Reader: bar.Reading(f)})
	}
	return with(logs, replay.ReadConfig{
		Stream: size < 0, Fields: c.Fields, Command: command,
		Judged: func(done, all int) { bar.Step(done, all, what) },
	})
}

// open opens the logs and returns their total size, -1 if one is a stream. With an
// error it also returns those that it has opened. It opens all of them before any is
// read, so that a mistyped name at the end of the list shows at once.
func (c *logFlags) open(sys *system) (logs []io.ReadCloser, size int64, err error) {
	if c.Log[0] == "-" {
		return []io.ReadCloser{io.NopCloser(sys.stdin)}, -1, nil
	}
	var seen []os.FileInfo // compared as files: links and relative paths name one twice too
	for _, name := range c.Log {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return logs, 0, fmt.Errorf("%s: no such file; check the path", name)
		}
		if err != nil {
			return logs, 0, err
		}
		logs = append(logs, f)
		st, err := f.Stat()
		switch {
		case err != nil:
			return logs, 0, err
		case st.IsDir():
			return logs, 0, fmt.Errorf("%s: is a directory; name the logs in it", name)
		case slices.ContainsFunc(seen, func(other os.FileInfo) bool { return os.SameFile(st, other) }):
			return logs, 0, fmt.Errorf("%s: is given twice, so its requests would count twice; remove one of the two", name)
		case !st.Mode().IsRegular():
			size = -1
		case size >= 0:
			size += st.Size()
		}
		seen = append(seen, st)
	}
	return logs, size, nil
}
