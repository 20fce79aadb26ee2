package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is wrong with the file of the access log shows beforehand, with its place, and looking
// makes none.
func TestAccessLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "there")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	load := func(text string) (*Config, error) {
		return LoadFrom("f.yaml", strings.NewReader("access_log: "+text+"\n"+rule), noEnv)
	}
	for _, name := range []string{filepath.Join(dir, "new"), file, "-"} {
		c, err := load(`{file: "` + name + `"}`)
		if err != nil || c.Server.AccessLog.File != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	if all, _ := filepath.Glob(filepath.Join(dir, "*")); len(all) != 1 {
		t.Errorf("%q", all)
	}
	const fix = "; name a file that fastlimit may write, in a directory that exists"
	for text, want := range map[string]string{
		"{file: " + dir + "}":         `f.yaml:1:20: access_log.file: "` + dir + `" is a directory` + fix,
		"{file: " + dir + "/none/x}":  `f.yaml:1:20: access_log.file: "` + dir + `/none/x" is in "` + dir + `/none": no such file or directory` + fix,
		"{file: " + dir + "/there/x}": `f.yaml:1:20: access_log.file: "` + dir + `/there/x" cannot be opened: not a directory` + fix,
		"{}":                          `f.yaml:1:13: access_log.file: missing; name a file: {file: /var/log/fastlimit/access.log}`,
		"x":                           `f.yaml:1:13: access_log: found the text "x"; want settings, such as {file: /var/log/fastlimit/access.log}`,
	} {
		if _, err := load(text); err == nil || err.Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
}
