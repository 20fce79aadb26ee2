package main

import (
	"bytes"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

const description = `rate limiter for servers under attack
Rejecting a client that exceeds its limit costs little more than not limiting
at all, memory does not grow with the number of clients, and no client is ever
denied because of what another did.`

// pack writes a package to the folder dir, and returns its path.
func (b *build) pack(list []file, dir, format, arch, version string) (string, error) {
	info := nfpm.WithDefaults(b.describe(format, arch, version))
	info.Contents = b.packed(list, format)
	packager, err := nfpm.Get(format)
	if err != nil {
		return "", err
	}
	var buf bytes.Buffer
	if err := packager.Package(info, &buf); err != nil {
		return "", err
	}
	path := filepath.Join(dir, packager.ConventionalFileName(info))
	return path, os.WriteFile(path, buf.Bytes(), 0o644)
}

func (b *build) describe(format, arch, version string) *nfpm.Info {
	scripts := b.in("deploy/release/scripts")
	info := &nfpm.Info{
		Name: "fastlimit", Arch: arch, Platform: "linux", Version: version, Release: "1", MTime: b.time,
		Section: "net", Priority: "optional", Maintainer: "fastlimit <fastlimit@users.noreply.github.com>",
		Description: description, Homepage: "https://github.com/fastlimit/fastlimit", License: "Apache-2.0",
		Overridables: nfpm.Overridables{
			Scripts: nfpm.Scripts{
				PreInstall:  filepath.Join(scripts, "preinst"),
				PostInstall: filepath.Join(scripts, "postinst"),
				PreRemove:   filepath.Join(scripts, "prerm"),
				PostRemove:  filepath.Join(scripts, "postrm"),
			},
			Deb: nfpm.Deb{Compression: "zstd", Predepends: []string{"passwd"}},
			RPM: nfpm.RPM{Compression: "zstd", BuildHost: "localhost", Summary: "Rate limiter for servers under attack"},
		},
	}
	if format == "rpm" {
		info.Depends = []string{"/usr/sbin/useradd"}
	}
	return info
}

// packed are the files as nfpm wants them, and the folders that belong to the package alone.
func (b *build) packed(list []file, format string) files.Contents {
	owned := func(path, owner, group string, mode os.FileMode) *files.Content {
		return &files.Content{Destination: path, Type: files.TypeDir, FileInfo: &files.ContentFileInfo{Owner: owner, Group: group, Mode: mode, MTime: b.time}}
	}
	all := files.Contents{
		owned("/etc/fastlimit", "root", "root", 0o755),
		owned("/usr/share/doc/fastlimit", "root", "root", 0o755),
		owned("/var/lib/fastlimit", "fastlimit", "fastlimit", 0o700),
	}
	for _, f := range list {
		if f.installed == "" || f.format != "" && f.format != format {
			continue
		}
		c := &files.Content{Source: f.source, Destination: f.installed}
		c.FileInfo = &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode, MTime: b.time}
		if f.config {
			c.Type, c.FileInfo.Group = files.TypeConfigNoReplace, "fastlimit"
		}
		all = append(all, c)
	}
	return all
}
