package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
)

// document writes what the program says about itself, and licences, to the folder stage.
func (b *build) document(stage string) error {
	b.stage = stage
	if err := os.MkdirAll(filepath.Join(stage, "man"), 0o755); err != nil {
		return err
	}
	// The program for this machine, which may be neither of those that are released.
	program := filepath.Join(stage, "fastlimit")
	if _, err := run(b.src, []string{"CGO_ENABLED=0", "GOFLAGS=-trimpath"}, "go", "build", "-o", program, "./cmd/fastlimit"); err != nil {
		return err
	}
	for name, args := range map[string][]string{
		"fastlimit.yaml": {"serve", "--init-config"},
		"fastlimit.bash": {"completion", "bash"},
		"_fastlimit":     {"completion", "zsh"},
		"fastlimit.fish": {"completion", "fish"},
	} {
		text, err := run(b.src, nil, program, args...)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(stage, name), []byte(text+"\n"), 0o600); err != nil {
			return err
		}
	}
	if _, err := run(b.src, nil, program, "man", filepath.Join(stage, "man")); err != nil {
		return err
	}
	if err := b.licenses(filepath.Join(b.out, "THIRD_PARTY_LICENSES")); err != nil {
		return err
	}
	return b.compressPages()
}

// compressPages compresses manual pages and the changelog, as distributions want them.
func (b *build) compressPages() error {
	pages, err := filepath.Glob(filepath.Join(b.stage, "man", "*.1"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		if err := compressFile(page, page+".gz"); err != nil {
			return err
		}
	}
	return compressFile(filepath.Join(b.src, "CHANGELOG.md"), filepath.Join(b.stage, "changelog.gz"))
}

// compressFile leaves time and name out of the header, so that equal files stay equal.
func compressFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var buf bytes.Buffer
	w, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(to, buf.Bytes(), 0o600)
}
