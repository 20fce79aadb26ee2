package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/fastlimit/fastlimit/internal/cli"
)

// There is a manual page for each command, with all that belongs to it, and troff has no complaints.
func TestManualPages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if code, stdout, stderr := command(t, nil, "man", dir); code != 0 || stdout+stderr != "" {
		t.Fatalf("exit %d, %q, %q", code, stdout, stderr)
	}
	pages := 0
	var check func(n *kong.Node, name string)
	check = func(n *kong.Node, name string) {
		pages++
		file := filepath.Join(dir, name+".1")
		text := quiet(t, "groff", "-man", "-ww", "-Tascii", "-P-bcou", "-rLL=1000n", file)
		for _, f := range slices.Concat(n.AllFlags(true)...) {
			if !strings.Contains(text, "--"+f.Name) || !strings.Contains(flat(text), flat(f.Help)) {
				t.Errorf("%s lacks --%s with its help", name, f.Name)
			}
		}
		for _, arg := range n.Positional {
			if !strings.Contains(text, arg.Summary()) || !strings.Contains(flat(text), flat(arg.Help)) {
				t.Errorf("%s lacks %s with its help", name, arg.Summary())
			}
		}
		for _, c := range n.Children {
			if c.Hidden {
				continue
			}
			if !strings.Contains(text, name+"-"+c.Name+"(1)") {
				t.Errorf("%s does not name %s", name, c.Name)
			}
			check(c, name+"-"+c.Name)
		}
	}
	quiet(t, "man", "--warnings", "-l", filepath.Join(dir, "fastlimit.1")) // it calls groff, with fewer warnings
	check(program(&system{stdout: io.Discard, stderr: io.Discard}).Parser().Model.Node, "fastlimit")
	if files, err := os.ReadDir(dir); err != nil || len(files) != pages || pages < 20 {
		t.Errorf("%d pages of %d commands, %v", len(files), pages, err)
	}
	if code, _, stderr := command(t, nil, "man", filepath.Join(dir, "missing")); code != cli.ExitFailure || !strings.Contains(stderr, "no such file or directory") {
		t.Errorf("exit %d, %q", code, stderr)
	}
}

// flat is text without spaces, which troff adds and removes.
func flat(text string) string { return strings.Join(strings.Fields(text), "") }
