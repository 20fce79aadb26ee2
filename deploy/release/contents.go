package main

import (
	"os"
	"path"
	"path/filepath"
	"slices"
)

// file is one that is handed out. It is left out of archives or of packages where it has no path there.
type file struct {
	source    string
	archived  string // below the archive's folder
	installed string // by packages, absolute
	format    string // deb or rpm, if only that one has it
	mode      os.FileMode
	config    bool // kept if it has been changed
}

const (
	docs  = "/usr/share/doc/fastlimit/"
	units = "/usr/lib/systemd/system/"
)

// contents lists the files for an architecture.
func (b *build) contents(arch string) ([]file, error) {
	third := filepath.Join(b.out, "THIRD_PARTY_LICENSES")
	list := []file{
		{source: b.binary(arch), archived: "fastlimit", installed: "/usr/bin/fastlimit", mode: 0o755},
		// Nobody else may read it: it may get a password.
		{source: b.staged("fastlimit.yaml"), archived: "fastlimit.yaml", installed: "/etc/fastlimit/fastlimit.yaml", mode: 0o640, config: true},
		{source: b.in("LICENSE"), archived: "LICENSE", installed: docs + "LICENSE"},
		// The one that Debian's containers keep.
		{source: b.in("LICENSE"), installed: docs + "copyright", format: "deb"},
		{source: third, archived: "THIRD_PARTY_LICENSES", installed: docs + "THIRD_PARTY_LICENSES"},
		{source: b.in("CHANGELOG.md"), archived: "CHANGELOG.md"},
		{source: b.staged("changelog.gz"), installed: docs + "changelog.gz"},
		{source: b.in("fastlimit.example.yaml"), archived: "fastlimit.example.yaml", installed: docs + "examples/fastlimit.example.yaml"},
		{source: b.staged("fastlimit.bash"), archived: "completions/fastlimit.bash", installed: "/usr/share/bash-completion/completions/fastlimit"},
		{source: b.staged("_fastlimit"), archived: "completions/_fastlimit", installed: "/usr/share/zsh/vendor-completions/_fastlimit", format: "deb"},
		{source: b.staged("_fastlimit"), installed: "/usr/share/zsh/site-functions/_fastlimit", format: "rpm"},
		{source: b.staged("fastlimit.fish"), archived: "completions/fastlimit.fish", installed: "/usr/share/fish/vendor_completions.d/fastlimit.fish"},
	}
	for _, g := range []struct{ pattern, archived, installed string }{
		{b.staged("man/*.1.gz"), "man", "/usr/share/man/man1/"},
		{b.in("deploy/systemd/*"), "systemd", units},
		{b.in("deploy/prometheus/*"), "prometheus", docs + "examples/prometheus/"},
		{b.in("deploy/grafana/*"), "grafana", docs + "examples/grafana/"},
	} {
		found, err := filepath.Glob(g.pattern)
		if err != nil {
			return nil, err
		}
		for _, source := range found {
			name := filepath.Base(source)
			list = append(list, file{source: source, archived: path.Join(g.archived, name), installed: g.installed + name})
		}
	}
	for i := range list {
		if list[i].mode == 0 {
			list[i].mode = 0o644
		}
	}
	return slices.DeleteFunc(list, func(f file) bool { return filepath.Base(f.source) == "alerts_test.yml" }), nil
}

func (b *build) in(name string) string     { return filepath.Join(b.src, name) }
func (b *build) staged(name string) string { return filepath.Join(b.stage, name) }
