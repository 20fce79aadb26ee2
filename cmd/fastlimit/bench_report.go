package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/bench"
	"github.com/fastlimit/fastlimit/bench/render"
)

// measure runs the parts and writes what they found. What was measured before a
// part failed, or a signal, is written too.
func (b *benchCmd) measure(ctx context.Context, sys *system, parts ...benchPart) error {
	files, err := b.create()
	if err != nil {
		return err
	}
	defer files.discard()
	var collected collector
	err = signalled(ctx, signalHooks{grace: benchGrace}, func(ctx context.Context) error {
		return collected.run(ctx, sys, parts)
	})
	results := collected.results()
	if len(results) == 0 {
		return err
	}
	report := bench.Report{Environment: bench.CurrentEnvironment(os.Args[1:]), Results: results}
	// A context of its own: that of a run which was interrupted is over.
	for name, version := range collected.versions(context.WithoutCancel(ctx), parts) {
		if report.Environment.Versions == nil {
			report.Environment.Versions = map[string]string{}
		}
		report.Environment.Versions[name] = version
	}
	return errors.Join(err, b.write(sys, files, report))
}

// benchGrace is time enough for servers to be stopped.
const benchGrace = 5 * time.Second

// collector keeps the results of the parts. Safe for concurrent use: a run that
// does not end in time is left behind.
type collector struct {
	mu  sync.Mutex
	all []bench.Result
}

func (c *collector) run(ctx context.Context, sys *system, parts []benchPart) error {
	bar := newProgress(sys.stderr)
	defer bar.clear()
	for _, p := range parts {
		results, err := p.run(ctx, bar.step)
		c.mu.Lock()
		c.all = append(c.all, results...)
		c.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *collector) results() []bench.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]bench.Result(nil), c.all...)
}

func (*collector) versions(ctx context.Context, parts []benchPart) map[string]string {
	all := map[string]string{}
	for _, p := range parts {
		if p.versions == nil {
			continue
		}
		for name, v := range p.versions(ctx) {
			if v != "" {
				all[name] = v
			}
		}
	}
	return all
}

// step shows what a measurement is about.
func (p *progress) step(done, total int, what string) {
	if p == nil {
		return
	}
	if p.bar == nil || p.all != total {
		p.clear()
		p.all = total
		p.show(int64(total), what, false)
	}
	p.bar.Describe(what)
	_ = p.bar.Set(done) // a bar that cannot be drawn is no reason to stop
}

// benchFiles are the files to be written, made before anything is measured, so
// that a path which cannot be written is known by then. nil is none.
type benchFiles struct{ out, html *os.File }

func (b *benchCmd) create() (files benchFiles, err error) {
	if files.out, err = pending(b.Out); err != nil {
		return files, fmt.Errorf("--out: %w", err)
	}
	if files.html, err = pending(b.HTML); err != nil {
		files.discard()
		return files, fmt.Errorf("--html: %w", err)
	}
	return files, nil
}

// pending makes a file beside path that is to become it.
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

func (f *benchFiles) discard() {
	for _, file := range []*os.File{f.out, f.html} {
		if file != nil {
			file.Close()
			os.Remove(file.Name()) // fails when it has got its name
		}
	}
}

// finish gives a pending file its content and name.
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

func (b *benchCmd) write(sys *system, files benchFiles, reports ...bench.Report) error {
	out := func(w io.Writer) error { return b.encode(w, reports) }
	var err error
	if files.out != nil {
		err = finish(files.out, b.Out, out)
	} else {
		err = out(sys.stdout)
	}
	if files.html != nil {
		err = errors.Join(err, finish(files.html, b.HTML, func(w io.Writer) error { return render.HTML(w, reports...) }))
	}
	return err
}

// encode writes one report: the first environment, with the versions of all,
// and the results of all.
func (b *benchCmd) encode(w io.Writer, reports []bench.Report) error {
	merged := bench.Report{Environment: reports[0].Environment, Results: render.Merge(reports...)}
	merged.Environment.Versions = map[string]string{}
	for i := range reports {
		maps.Copy(merged.Environment.Versions, reports[i].Environment.Versions)
	}
	if b.Output == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", " ")
		return enc.Encode(merged)
	}
	return render.Text(w, &merged)
}

type benchReport struct {
	Files []string `arg:"" name:"file" help:"Reports in JSON; a later one counts where two have the same result."`
}

// Run implements the command.
func (c *benchReport) Run(sys *system, b *benchCmd) error {
	var reports []bench.Report
	for _, name := range c.Files {
		r, err := readReport(name)
		if err != nil {
			return err
		}
		reports = append(reports, r)
	}
	files, err := b.create()
	if err != nil {
		return err
	}
	defer files.discard()
	return b.write(sys, files, reports...)
}

func readReport(name string) (r bench.Report, err error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return r, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return r, fmt.Errorf("%s: not a report of fastlimit bench -o json: %w", name, err)
	}
	return r, nil
}
