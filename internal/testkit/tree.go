package testkit

import (
	"os"
	"path/filepath"
)

// WriteTree writes files with these contents, by paths from the working directory, and
// makes the folders that they need.
func WriteTree(t T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
