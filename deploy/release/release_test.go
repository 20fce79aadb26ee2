//go:build release

package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

var (
	made *build // a release of the commit that is checked out
	root string // a folder with a new Debian 12, which has no systemd
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "release-test-")
	if err != nil {
		log.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // a test's programs have other users
		log.Fatal(err)
	}
	root = filepath.Join(dir, "root")
	debian := exec.Command("debootstrap", "--variant=minbase", "bookworm", root)
	if err := debian.Start(); err != nil {
		log.Fatal(err)
	}
	if made, err = release("../..", filepath.Join(dir, "out"), filepath.Join(dir, "work")); err != nil {
		log.Fatal(err)
	}
	if err := debian.Wait(); err != nil {
		log.Fatalf("%s: %v; it says why in %s", debian, err, filepath.Join(root, "debootstrap"))
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// must runs a command in a folder, and returns what it printed.
func must(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// made1 is the one file that the release has of a pattern.
func made1(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(made.out, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %q, %v", pattern, found, err)
	}
	return found[0]
}

// TestReproducible: made elsewhere, later, by the same commands, all files have the same bytes.
func TestReproducible(t *testing.T) {
	again := filepath.Join(t.TempDir(), "another", "folder")
	t.Setenv("TZ", "Asia/Kolkata")
	if _, err := release("../..", again, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	must(t, ".", "diff", "-r", made.out, again)
}

// TestSums: the list has all files, and they are as it says.
func TestSums(t *testing.T) {
	t.Parallel()
	files, err := os.ReadDir(made.out)
	if err != nil {
		t.Fatal(err)
	}
	if out := must(t, made.out, "sha256sum", "--strict", "-c", "SHA256SUMS"); strings.Count(out, ": OK\n") != len(files)-1 || len(files) != 12 {
		t.Errorf("%d files\n%s", len(files), out)
	}
}

// TestBinaries: they are static, and know their version.
func TestBinaries(t *testing.T) {
	t.Parallel()
	for _, arch := range architectures {
		if out := must(t, ".", "readelf", "-lW", made.binary(arch)); strings.Contains(out, "INTERP") {
			t.Errorf("%s is linked dynamically:\n%s", arch, out)
		}
	}
	commit := strings.TrimSpace(must(t, "../..", "git", "rev-parse", "HEAD"))
	program := filepath.Join(t.TempDir(), made.name("amd64"), "fastlimit")
	must(t, filepath.Dir(filepath.Dir(program)), "tar", "xzf", made.binary("amd64")+".tar.gz")
	out := must(t, ".", program, "version")
	if !strings.HasPrefix(out, "fastlimit "+made.version+"\ncommit "+commit+"\n") {
		t.Errorf("%s: %s", made.version, out)
	}
	for _, name := range []string{"LICENSE", "THIRD_PARTY_LICENSES", "fastlimit.yaml", "man/fastlimit.1.gz", "systemd/fastlimit.service", "completions/_fastlimit"} {
		if _, err := os.Stat(filepath.Join(filepath.Dir(program), name)); err != nil {
			t.Error(err)
		}
	}
}

// TestBOM: the list of parts is valid CycloneDX, and has each module of the binary. So has the list of licences.
func TestBOM(t *testing.T) {
	t.Parallel()
	licences, err := os.ReadFile(made1(t, "THIRD_PARTY_LICENSES"))
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range architectures {
		f, err := os.Open(made.binary(arch) + ".cdx.json")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var bom cdx.BOM
		if err := cdx.NewBOMDecoder(f, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
			t.Fatal(err)
		}
		validate(t, f.Name())
		info, err := buildinfo.ReadFile(made.binary(arch))
		if err != nil || len(info.Deps) < 30 {
			t.Fatalf("%v, %v", info, err)
		}
		for _, m := range info.Deps {
			if !slices.ContainsFunc(*bom.Components, func(c cdx.Component) bool { return c.Name == m.Path && c.Version == m.Version }) {
				t.Errorf("%s: the list of parts lacks %s", arch, m.Path)
			}
			if !strings.Contains(string(licences), "\n"+moduleName(m)+": ") {
				t.Errorf("%s: no licence of %s", arch, m.Path)
			}
		}
	}
}

// validate compares a file with the schema that CycloneDX's own library has.
func validate(t *testing.T, path string) {
	t.Helper()
	folder := strings.TrimSpace(must(t, ".", "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go")) + "/schema/"
	c := jsonschema.NewCompiler()
	for id, name := range map[string]string{"bom-1.6.schema.json": "bom-1.6.schema.json", "spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json"} {
		if err := c.AddResource("http://cyclonedx.org/schema/"+id, decode(t, folder+name)); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := c.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(decode(t, path)); err != nil {
		t.Errorf("%s: %v", path, err)
	}
}

func decode(t *testing.T, path string) (v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestNoLicence: a module without a licence is an error.
func TestNoLicence(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "PATENTS"), []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := addLicense(&bytes.Buffer{}, "example.com/m@v1.0.0", dir); err == nil || !strings.Contains(err.Error(), "example.com/m@v1.0.0 has no licence") {
		t.Error(err)
	}
}

// TestRPM: it is whole, and has what the deb has; distributions have different folders for zsh.
func TestRPM(t *testing.T) {
	t.Parallel()
	rpm, deb := made1(t, "*.x86_64.rpm"), made1(t, "*_amd64.deb")
	must(t, ".", "rpm", "-K", "--nosignature", rpm)
	scripts := must(t, ".", "rpm", "-qp", "--scripts", rpm)
	for _, name := range []string{"preinst", "postinst", "prerm", "postrm"} {
		text, err := os.ReadFile(filepath.Join("scripts", name))
		if err != nil || !strings.Contains(scripts, string(text)) {
			t.Errorf("%s, %v:\n%s", name, err, scripts)
		}
	}
	if got := must(t, ".", "rpm", "-qpc", rpm); got != "/etc/fastlimit/fastlimit.yaml\n" {
		t.Errorf("configuration: %s", got)
	}
	fromRPM, fromDeb := t.TempDir(), t.TempDir()
	must(t, fromRPM, "sh", "-c", `rpm2cpio "$0" | cpio --quiet -idm --no-absolute-filenames`, rpm)
	must(t, ".", "dpkg-deb", "-x", deb, fromDeb)
	for _, move := range [][2]string{{"usr/share/zsh/vendor-completions", "usr/share/zsh/site-functions"}, {"usr/share/doc/fastlimit/copyright", "copyright"}} {
		if err := os.Rename(filepath.Join(fromDeb, move[0]), filepath.Join(fromDeb, move[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(fromDeb, "copyright")); err != nil {
		t.Fatal(err)
	}
	must(t, ".", "diff", "-r", fromDeb, fromRPM)
}
