package files

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const limit = "descriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]\n"

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestLoadReads files at any depth, and of a mounted ConfigMap each file once.
func TestLoadReads(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", "domain: a\n"+limit)
	write(t, dir, "deep/er/b", "domain: b\n"+limit)
	write(t, dir, ".hidden/c.yaml", "domain: c\n"+limit)
	write(t, dir, ".d.yaml", "domain: d\n"+limit)
	write(t, dir, "..2026_01/e.yaml", "domain: e\n"+limit)
	for link, to := range map[string]string{"..data": "..2026_01", "e.yaml": "..data/e.yaml", "loop": "."} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	whole := filepath.Join(t.TempDir(), "current")
	if err := os.Symlink(dir, whole); err != nil {
		t.Fatal(err)
	}
	for dotFiles, want := range map[bool]int{true: 5, false: 3} {
		limits, _, err := (Folder{Dir: whole, DotFiles: dotFiles}).Load(false)
		if err != nil || limits.Len() != want {
			t.Errorf("%v, %+v: want %d limits", err, limits, want)
		}
	}
}

// TestLoadReportsAll mistakes of all files, each once, in order.
func TestLoadReportsAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a", "domain: x\ndescriptors: [{key: a, rate_limit: {unit: [day]}}, {value: b}]\n")
	write(t, dir, "b", "domain: x\nfoo: 1\n")
	write(t, dir, "c", "'''")
	limits, _, err := Folder{Dir: dir}.Load(false)
	if err == nil {
		t.Fatal(limits)
	}
	got := strings.ReplaceAll(err.Error(), dir+"/", "")
	const want = `a:2:43: unit: is a list; want text
b:1:9: domain: "x" is in another file too; join the files, or set MERGE_DOMAIN_CONFIG=true
b:2:1: foo: unknown setting; want descriptors, domain
c:1:1: YAML: found unexpected end of stream; check the indentation and the quotes`
	if got != want {
		t.Errorf("got\n%s", got)
	}
	if _, _, err := (Folder{Dir: filepath.Join(dir, "none")}).Load(false); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("%v", err)
	}
}

// TestPrefix has upstream's rule: a folder called config, and files beside it whose names
// begin so.
func TestPrefix(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "config/a.yaml", "domain: a\n"+limit)
	write(t, dir, "config/deep/b.yaml", "domain: b\n"+limit)
	write(t, dir, "config.yaml", "domain: c\n"+limit)
	write(t, dir, "configuration/d.yaml", "domain: d\n"+limit)
	write(t, dir, "other/config/e.yaml", "domain: e\n"+limit)
	if limits, _, err := (Folder{Dir: dir, Prefix: "config."}).Load(false); err != nil || limits.Len() != 3 {
		t.Errorf("%v, %v: want 3 limits", limits, err)
	}
	if limits, _, err := (Folder{}).Load(false); err != nil || limits.Len() != 0 {
		t.Errorf("%v, %v: want no limits", limits, err)
	}
}

// TestChanged notices what editors and Kubernetes do to files, and is quiet in between.
func TestChanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "..1/a.yaml", "1")
	write(t, dir, "..2/a.yaml", "1")
	write(t, dir, "b.yaml", "1")
	link := func(to, name string) {
		t.Helper()
		temporary := filepath.Join(dir, "..tmp")
		if err := os.Symlink(to, temporary); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(temporary, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("..1", "..data")
	link("..data/a.yaml", "a.yaml")
	w := NewWatcher(Folder{Dir: dir})
	for _, step := range []struct {
		what   string
		change func() error
	}{
		{"the start", func() error { return nil }},
		{"another link", func() error { link("..2", "..data"); return nil }},
		{"a new file", func() error { return os.WriteFile(filepath.Join(dir, "c.yaml"), nil, 0o600) }},
		{"another size", func() error { return os.WriteFile(filepath.Join(dir, "b.yaml"), []byte("22"), 0o600) }},
		{"another name", func() error { return os.Rename(filepath.Join(dir, "b.yaml"), filepath.Join(dir, "d.yaml")) }},
		{"another time", func() error { return os.Chtimes(filepath.Join(dir, "a.yaml"), time.Time{}, time.Unix(1, 0)) }},
		{"the folder is lost", func() error { return os.Rename(dir, dir+".away") }},
		{"and back", func() error { return os.Rename(dir+".away", dir) }},
	} {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		if !w.Changed() || w.Changed() {
			t.Errorf("%s: not noticed once", step.what)
		}
	}
}
