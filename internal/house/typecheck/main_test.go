package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Mistakes are found in the files of the system that is asked about, wherever they are, and only there.
func TestCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":        "module example\n\ngo 1.26\n",
		"main.go":       "package main\n\nimport \"example/deep\"\n\nfunc main() { println(deep.Name, first()) }\n",
		"other.go":      "//go:build !windows\n\npackage main\n\nimport \"net/http\"\n\nfunc first() string { return http.MethodGet }\n",
		"windows.go":    "//go:build windows\n\npackage main\n\nimport \"syscall\"\n\nfunc first() int { return syscall.Getuid(1) }\n",
		"deep/deep.go":  "package deep\n\nimport _ \"net/http\"\n",
		"deep/plain.go": "//go:build !darwin\n\npackage deep\n\nconst Name = \"deep\"\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for system, want := range map[string]string{
		"linux":   "",
		"darwin":  "main.go:5:28: undefined: deep.Name",
		"windows": "windows.go:7:42: too many arguments in call to syscall.Getuid",
		"amiga":   "undefined: ",
	} {
		if err := check(dir, system); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v; want %q", system, err, want)
		}
	}
}
