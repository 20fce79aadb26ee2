package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/bench/report"
	"github.com/fastlimit/fastlimit/internal/cli"
)

// measure runs the parts and writes their results, including what was measured
// before a part failed or a signal arrived.
func (b *commands) measure(ctx context.Context, sys *system, parts ...part) error {
	files, err := b.create()
	if err != nil {
		return err
	}
	defer files.discard()
	var collected collector
	err = cli.Signalled(ctx, cli.SignalHooks{Grace: grace}, func(ctx context.Context) error {
		return collected.run(ctx, sys, parts)
	})
	results := collected.results()
	if len(results) == 0 {
		return err
	}
	r := report.Report{Environment: report.CurrentEnvironment(os.Args[1:]), Results: results}
	// Versions come last: asking for them starts programs, which costs nothing once
	// nothing is measured any more.
	for _, p := range parts {
		if p.versions != nil { // without cancel: after a signal ctx is done
			maps.Copy(r.Environment.Versions, p.versions(context.WithoutCancel(ctx)))
		}
	}
	maps.DeleteFunc(r.Environment.Versions, func(_, version string) bool { return version == "" })
	return errors.Join(err, b.write(sys, files, r))
}

// measureOne is measure for the results of a function that may have failed.
func (b *commands) measureOne(ctx context.Context, sys *system) func(part, error) error {
	return func(p part, err error) error {
		if err != nil {
			return err
		}
		return b.measure(ctx, sys, p)
	}
}

// grace is the time that an interrupted run has to stop its servers.
const grace = 5 * time.Second

// collector keeps the results of the parts. It is safe for concurrent use: a run
// that does not end within its grace is abandoned and may still add some.
type collector struct {
	mu  sync.Mutex
	all []report.Result
}

func (c *collector) run(ctx context.Context, sys *system, parts []part) error {
	bar := cli.NewProgress(sys.stderr)
	defer bar.Clear()
	for _, p := range parts {
		results, err := p.run(ctx, bar.Step)
		c.mu.Lock()
		c.all = append(c.all, results...)
		c.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *collector) results() []report.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]report.Result(nil), c.all...)
}

// outputs are the files to write, nil where not asked for. They are created before
// the measurement, so that a path that cannot be written fails at once.
type outputs struct{ out, html *os.File }

func (b *commands) create() (files outputs, err error) {
	if files.out, err = pending(b.Out); err != nil {
		return files, fmt.Errorf("--out: %w", err)
	}
	if files.html, err = pending(b.HTML); err != nil {
		files.discard()
		return files, fmt.Errorf("--html: %w", err)
	}
	return files, nil
}

// pending creates a temporary file beside path, which [finish] renames to it, so
// that an older report stays until the new one is complete.
func pending(path string) (*os.File, error) {
	if path == "" {
		return nil, nil
	}
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is not a regular file; name one, or a new one", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return nil, fmt.Errorf("%s cannot be written: %w", path, errors.Unwrap(err))
	}
	return f, nil
}

// discard deletes what was not finished.
func (f *outputs) discard() {
	for _, file := range []*os.File{f.out, f.html} {
		if file != nil {
			file.Close()
			os.Remove(file.Name()) // fails if finish has renamed it
		}
	}
}

// finish writes a pending file and gives it its name.
func finish(f *os.File, path string, write func(io.Writer) error) error {
	if err := write(f); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// write sends the results to where they were asked for: stdout unless --out names a
// file, and a page beside that.
func (b *commands) write(sys *system, files outputs, reports ...report.Report) error {
	out := func(w io.Writer) error { return b.encode(w, reports) }
	var err error
	if files.out != nil {
		err = finish(files.out, b.Out, out)
	} else {
		err = out(sys.stdout)
	}
	if files.html != nil {
		err = errors.Join(err, finish(files.html, b.HTML, func(w io.Writer) error { return report.HTML(w, reports...) }))
	}
	return err
}

// encode merges the reports into one: the first environment, the versions and
// results of all.
func (b *commands) encode(w io.Writer, reports []report.Report) error {
	merged := report.Report{Environment: reports[0].Environment, Results: report.Merge(reports...)}
	merged.Environment.Versions = map[string]string{}
	for i := range reports {
		maps.Copy(merged.Environment.Versions, reports[i].Environment.Versions)
	}
	if b.Output == "json" {
		return merged.WriteJSON(w)
	}
	return report.Text(w, &merged)
}

type reportCmd struct {
	Files []string `arg:"" name:"file" help:"Reports in JSON; a later one counts where two have the same result."`
}

// Run implements the command.
func (c *reportCmd) Run(sys *system, b *commands) error {
	var all []report.Report
	for _, name := range c.Files {
		r, err := report.Read(name)
		if err != nil {
			return err
		}
		all = append(all, r)
	}
	files, err := b.create()
	if err != nil {
		return err
	}
	defer files.discard()
	return b.write(sys, files, all...)
}
