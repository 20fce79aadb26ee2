package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
)

const introduction = `fastlimit contains the modules below. Their source is at these paths, in these versions.
`

// isLicense matches what may bind who passes a module on.
var isLicense = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)`)

// licenses writes the licences of all that is linked into any of the binaries, Go included.
func (b *build) licenses(path string) error {
	root, err := run(b.src, nil, "go", "env", "GOROOT")
	if err != nil {
		return err
	}
	text := bytes.NewBufferString(introduction)
	if err := addLicense(text, "Go "+b.info[architectures[0]].GoVersion, root); err != nil {
		return err
	}
	for _, m := range b.modules() {
		out, err := run(b.src, nil, "go", "mod", "download", "-json", m)
		if err != nil {
			return err
		}
		var found struct{ Dir string }
		if err := json.Unmarshal([]byte(out), &found); err != nil {
			return err
		}
		if err := addLicense(text, m, found.Dir); err != nil {
			return err
		}
	}
	return os.WriteFile(path, text.Bytes(), 0o644)
}

// modules are those in the binaries, each as path@version.
func (b *build) modules() (all []string) {
	for _, info := range b.info {
		for _, m := range info.Deps {
			all = append(all, moduleName(m))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func moduleName(m *debug.Module) string { return m.Path + "@" + m.Version }

// addLicense appends what is found in the folder of a module, which has to be something.
func addLicense(text *bytes.Buffer, module, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	found := false
	for _, e := range entries {
		if !isLicense.MatchString(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		license, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		found = found || !strings.HasPrefix(strings.ToLower(e.Name()), "patents")
		fmt.Fprintf(text, "\n%s\n%s: %s\n\n%s\n", strings.Repeat("=", 80), module, e.Name(), bytes.TrimSpace(license))
	}
	if !found {
		return fmt.Errorf("%s has no licence in %s", module, dir)
	}
	return nil
}
