package files

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
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
		limits, _, err := Load(whole, dotFiles, false)
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
	limits, _, err := Load(dir, true, false)
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
	if _, _, err := Load(filepath.Join(dir, "none"), true, false); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("%v", err)
	}
}
