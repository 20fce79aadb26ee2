package main

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/internal/cli"
)

// initConfig returns what serve --init-config prints.
func initConfig(t *testing.T) string {
	t.Helper()
	code, stdout, stderr := command(t, nil, "serve", "--init-config")
	if code != 0 || stderr != "" || strings.Count(stdout, "\n") > 60 {
		t.Fatalf("exit %d, %q, %q", code, stdout, stderr)
	}
	return stdout
}

// The file is valid without a warning, and serve starts with it.
func TestInitConfigServes(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "fastlimit.yaml", initConfig(t))
	code, stdout, stderr := command(t, nil, "validate", file)
	if code != 0 || stderr != "" || strings.Contains(stdout, "warning") {
		t.Errorf("exit %d, %s%s", code, stdout, stderr)
	}
	p := serve(t, "-c", file)
	if resp, _ := get(t, http.DefaultClient, "http://"+p.listen+"/"); resp.StatusCode != http.StatusOK {
		t.Error(resp.Status)
	}
}

// What it shows as examples may be used as it stands.
func TestInitConfigExamples(t *testing.T) {
	t.Parallel()
	example := regexp.MustCompile(`(?m)^( *)#([^ \n])`)
	text := initConfig(t)
	if n := len(example.FindAllString(text, -1)); n != 4 {
		t.Errorf("%d examples", n)
	}
	text = strings.ReplaceAll(example.ReplaceAllString(text, "$1$2"), "/var/lib/fastlimit", t.TempDir())
	code, stdout, stderr := command(t, nil, "validate", writeFile(t, "fastlimit.yaml", text))
	if code != 0 || stderr != "" || !strings.Contains(stdout, "logins") || strings.Contains(stdout, "warning") {
		t.Errorf("exit %d, %s%s", code, stdout, stderr)
	}
}

// The pages that it names exist, with their headings.
func TestInitConfigPages(t *testing.T) {
	t.Parallel()
	links := regexp.MustCompile(`(docs/\S+\.md)(?:#([a-z_-]+))?`).FindAllStringSubmatch(initConfig(t), -1)
	if len(links) < 8 {
		t.Errorf("%d pages are named", len(links))
	}
	for _, link := range links {
		page, err := os.ReadFile(filepath.Join("..", "..", link[1]))
		if err != nil {
			t.Error(err)
			continue
		}
		found := link[2] == ""
		for line := range strings.Lines(string(page)) {
			title, heading := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
			found = found || heading && strings.HasPrefix(line, "#") && anchor(title) == link[2]
		}
		if !found {
			t.Errorf("%s: no such heading", link[0])
		}
	}
}

// anchor is what a heading is called in links.
func anchor(title string) string {
	return strings.NewReplacer(" ", "-", ",", "").Replace(strings.ToLower(strings.TrimSpace(title)))
}

// Flags that would do nothing are refused: -c would not be the file to write.
func TestInitConfigTakesNoFlags(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "fastlimit.yaml")
	for _, flags := range [][]string{{"-c", missing}, {"--listen", ":80"}, {"--log-format", "json"}, {"--drain-delay", "0s"}} {
		code, stdout, stderr := command(t, nil, append([]string{"serve", "--init-config"}, flags...)...)
		if code != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, "write fastlimit serve --init-config > fastlimit.yaml") {
			t.Errorf("%v: exit %d, %q, %q", flags, code, stdout, stderr)
		}
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("the file was written")
	}
}
