// Package files reads the folder in which envoyproxy/ratelimit has its configuration.
package files

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fastlimit/fastlimit/internal/mistake"
	"github.com/fastlimit/fastlimit/internal/rls/descriptor"
)

// maxSize bounds a file: 100,000 limits take 10 MB.
const maxSize = 64 << 20

// parse reads all files of a folder and of those in it, in the order of their names,
// whatever they are called. dotFiles says whether those that begin with a dot are read too.
// Names that begin with two dots are never: Kubernetes puts the files of a ConfigMap into
// such a folder, and links to them. The error is of a folder or file that cannot be read;
// errs and warnings are those of [descriptor.ParseYAML].
func parse(dir string, dotFiles bool) (configs []descriptor.Config, warnings, errs mistake.Errors, err error) {
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, nil, nil, err
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if path != root && (strings.HasPrefix(name, "..") || !dotFiles && strings.HasPrefix(name, ".")) {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		// A link counts as what it leads to, but one to a folder could lead back.
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		data, err := read(path)
		if err != nil {
			return err
		}
		c, w, e := descriptor.ParseYAML(filepath.Join(dir, strings.TrimPrefix(path, root)), data)
		if c != nil {
			configs = append(configs, *c)
		}
		warnings, errs = append(warnings, w...), append(errs, e...)
		return nil
	})
	return configs, warnings, errs, err
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if len(data) > maxSize {
		return nil, fmt.Errorf("%s: larger than %d MiB: is it a configuration?", path, maxSize>>20)
	}
	return data, err
}

// Load is parse and [descriptor.New]: all of a folder, or all errors in it. Warnings may
// be there in both cases.
func Load(dir string, dotFiles, merge bool) (*descriptor.Limits, mistake.Errors, error) {
	configs, warnings, errs, err := parse(dir, dotFiles)
	if err != nil {
		return nil, warnings, err
	}
	limits, more := descriptor.New(configs, merge)
	if errs = inOrder(errs, more); len(errs) > 0 {
		return nil, warnings, errs
	}
	return limits, warnings, nil
}

// inOrder joins the errors of files and those of their trees, without those of a tree that
// may follow from an error in the same line.
func inOrder(errs, trees mistake.Errors) mistake.Errors {
	type line struct {
		file string
		line int
	}
	seen := map[line]bool{}
	for _, e := range errs {
		seen[line{e.File, e.Line}] = true
	}
	for _, e := range trees {
		if !seen[line{e.File, e.Line}] {
			errs = append(errs, e)
		}
	}
	slices.SortStableFunc(errs, func(a, b *mistake.Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return errs
}
