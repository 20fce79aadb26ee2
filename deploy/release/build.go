package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// build is one release in the making.
type build struct {
	src, out string
	stage    string // files that the packages have and the clone has not
	version  string // v1.2.3, or what the go command calls a commit without a tag
	time     time.Time
	info     map[string]*buildinfo.BuildInfo // by architecture
}

// compile builds the binaries, and asks the first for its version.
func compile(src, out string) (*build, error) {
	seconds, err := run(src, nil, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return nil, err
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return nil, err
	}
	b := &build{src: src, out: out, time: time.Unix(unix, 0).UTC(), info: map[string]*buildinfo.BuildInfo{}}
	for _, arch := range architectures {
		if err := b.compileFor(arch); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// compileFor builds for processors of the first generation, whatever the environment prefers.
func (b *build) compileFor(arch string) error {
	path, err := filepath.Abs(filepath.Join(b.out, "fastlimit"))
	if err != nil {
		return err
	}
	env := []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + arch, "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT="}
	if _, err := run(b.src, env, "go", "build", "-buildvcs=true", "-trimpath", "-ldflags=-s -w", "-o", path, "./cmd/fastlimit"); err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(info.Main.Version, "v") || strings.Contains(info.Main.Version, "+dirty") {
		return fmt.Errorf("the version is %q: is git installed?", info.Main.Version)
	}
	b.version, b.info[arch] = info.Main.Version, info
	return os.Rename(path, b.binary(arch))
}

// name is how files for an architecture begin.
func (b *build) name(arch string) string {
	return "fastlimit_" + strings.TrimPrefix(b.version, "v") + "_linux_" + arch
}

func (b *build) binary(arch string) string { return filepath.Join(b.out, b.name(arch)) }
