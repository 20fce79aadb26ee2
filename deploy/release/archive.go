package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// archive writes the tar.gz of an architecture.
func (b *build) archive(list []file, arch string) error {
	out, err := os.Create(b.binary(arch) + ".tar.gz")
	if err != nil {
		return err
	}
	defer out.Close()
	compressed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(compressed)
	for _, f := range list {
		if f.archived == "" {
			continue
		}
		if err := b.add(w, f, b.name(arch)); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := compressed.Close(); err != nil {
		return err
	}
	return out.Close()
}

func (b *build) add(w *tar.Writer, f file, folder string) error {
	text, err := os.ReadFile(f.source)
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{
		Name: folder + "/" + f.archived, Mode: int64(f.mode), Size: int64(len(text)), ModTime: b.time, Uname: "root", Gname: "root",
	}); err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// sums writes SHA256SUMS of the files in a folder, for sha256sum -c.
func sums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(content), e.Name())
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(text.String()), 0o644)
}
