// Release makes what a release of fastlimit consists of, from the commit that is checked out and not from
// changes to it: for each architecture a static binary, an archive, a deb, an rpm and a list of parts
// (SBOM), and for all THIRD_PARTY_LICENSES and SHA256SUMS. The same commit and the same version of Go
// give the same bytes, wherever and whenever they are made.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

var architectures = []string{"amd64", "arm64"}

func main() {
	repo := flag.String("repo", ".", "the clone of fastlimit")
	out := flag.String("out", ".tmp/release", "the folder for the files, which is emptied before")
	flag.Parse()
	work, err := os.MkdirTemp("", "fastlimit-release-")
	if err == nil {
		_, err = release(*repo, *out, work)
		os.RemoveAll(work)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release fills the folder out, by way of the folder work. It builds in a clone of its own: the go command
// records the commit in a clone, but not in a worktree, and so nothing that is not committed can get in.
func release(repo, out, work string) (*build, error) {
	src := filepath.Join(work, "src")
	if _, err := run(".", nil, "git", "clone", "--quiet", repo, src); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(out); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, err
	}
	b, err := compile(src, out)
	if err != nil {
		return nil, err
	}
	if err := b.document(filepath.Join(work, "stage")); err != nil {
		return nil, err
	}
	for _, arch := range architectures {
		if err := b.publish(arch); err != nil {
			return nil, err
		}
	}
	return b, sums(out)
}

// publish makes the files for one architecture.
func (b *build) publish(arch string) error {
	list, err := b.contents(arch)
	if err != nil {
		return err
	}
	if err := b.archive(list, arch); err != nil {
		return err
	}
	for _, format := range []string{"deb", "rpm"} {
		if _, err := b.pack(list, b.out, format, arch, b.version); err != nil {
			return err
		}
	}
	return b.bom(arch)
}

// run runs a command in a folder with additional variables, and returns what it printed.
func run(dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), err
}
