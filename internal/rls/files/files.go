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

// Folder is where the files are.
type Folder struct {
	Dir string
	// Prefix is what the names of files begin with, as paths within Dir with dots for
	// slashes; others are left out. So "config." is those of a folder of that name, and
	// files such as config.yaml.
	Prefix string
	// DotFiles says whether names that begin with a dot count. Those that begin with two
	// never do: Kubernetes puts the files of a ConfigMap into such a folder, and links to
	// them.
	DotFiles bool
}

// file is one that was found: its name for users, and what the system says of it.
type file struct {
	name string
	info fs.FileInfo
}

// find returns the files of a folder and of those in it, in the order of their names.
func (f Folder) find() (all []file, err error) {
	root, err := filepath.EvalSymlinks(f.Dir)
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if path != root && (strings.HasPrefix(name, "..") || !f.DotFiles && strings.HasPrefix(name, ".")) {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		within := strings.TrimPrefix(strings.TrimPrefix(path, root), string(filepath.Separator))
		if d.IsDir() || !strings.HasPrefix(strings.ReplaceAll(within, string(filepath.Separator), "."), f.Prefix) {
			return nil
		}
		// A link counts as what it leads to, but one to a folder could lead back.
		info, err := os.Stat(path)
		if err == nil && info.Mode().IsRegular() {
			all = append(all, file{filepath.Join(f.Dir, within), info})
		}
		return err
	})
	return all, err
}

// parse reads the files. Without a folder there are none. The error is of one that cannot
// be read; errs and warnings are those of [descriptor.ParseYAML].
func (f Folder) parse() (configs []descriptor.Config, warnings, errs mistake.Errors, err error) {
	if f.Dir == "" {
		return nil, nil, nil, nil
	}
	all, err := f.find()
	for _, one := range all {
		data, err := read(one.name)
		if err != nil {
			return nil, nil, nil, err
		}
		c, w, e := descriptor.ParseYAML(one.name, data)
		if c != nil {
			configs = append(configs, *c)
		}
		warnings, errs = append(warnings, w...), append(errs, e...)
	}
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

// Load reads the files and makes the limits, or returns all mistakes in them, as
// [mistake.Errors]. merge says whether files may have the same domain. Warnings may be there
// in both cases.
func (f Folder) Load(merge bool) (*descriptor.Limits, mistake.Errors, error) {
	configs, warnings, errs, err := f.parse()
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
