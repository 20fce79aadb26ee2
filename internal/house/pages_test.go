package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	anchored = regexp.MustCompile(`\]\(([^)#:]*)#([^)]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	// What is said of a version that has not got it yet becomes false unnoticed.
	promises = regexp.MustCompile(`(?i)not there yet|coming soon|not yet implemented|reserved for later|will be added|\bTODO\b|\bFIXME\b`)
)

// anchors are those that a page has on GitHub, with how many headings want each.
func anchors(page string) map[string]int {
	all := map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, linkText.ReplaceAllString(m[1], "$1"))
		all[slug]++
	}
	return all
}

var linkText = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)

// Every link leads to a heading that there is, once.
func TestAnchorsExist(t *testing.T) {
	t.Parallel()
	pages, found := documents(t), 0
	for name, page := range pages {
		for _, m := range anchored.FindAllStringSubmatch(page, -1) {
			target := name
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(name), m[1])
			}
			other, ok := pages[target]
			if !ok {
				continue // no page: a file of code, or none, which another test says
			}
			found++
			if n := anchors(other)[m[2]]; n != 1 {
				t.Errorf("%s: %d headings of %s are #%s", name, n, target, m[2])
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d anchors", found)
	}
}

// Alerts and dashboards link to pages and headings that exist.
func TestDeployedLinksExist(t *testing.T) {
	t.Parallel()
	pages, found := documents(t), 0
	files, _ := filepath.Glob("deploy/*/*.*")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range deployedLink.FindAllStringSubmatch(string(text), -1) {
			found++
			if page, ok := pages[m[1]]; !ok || m[2] != "" && anchors(page)[m[2]] != 1 {
				t.Errorf("%s: %s leads nowhere", file, m[0])
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d links", found)
	}
}

var deployedLink = regexp.MustCompile(`https://github\.com/fastlimit/fastlimit/blob/main/([\w./-]+)(?:#([\w-]+))?`)

// Every row of a table belongs to one, and has as many cells as its head.
func TestTablesRender(t *testing.T) {
	t.Parallel()
	tables := 0
	for name, page := range documents(t) {
		cells := 0 // of the head of the table that a line is in; 0: in none
		lines := strings.Split(fenced.ReplaceAllString(page, ""), "\n")
		for i, line := range lines {
			line = strings.TrimSpace(line)
			if !strings.HasPrefix(line, "|") {
				cells = 0
				continue
			}
			n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
			if cells == 0 {
				tables++
				if cells = n; i+1 == len(lines) || !delimiter.MatchString(lines[i+1]) {
					t.Errorf("%s: a row without a table: %q", name, line)
				}
			} else if n != cells {
				t.Errorf("%s: %d cells, the head has %d: %q", name, n-1, cells-1, line)
			}
		}
	}
	if tables < 50 {
		t.Errorf("only %d tables", tables)
	}
}

var delimiter = regexp.MustCompile(`^\s*\|[ :|-]+\|\s*$`)

// Pages say what is, not what will be.
func TestPagesPromiseNothing(t *testing.T) {
	t.Parallel()
	for name, page := range documents(t) {
		if m := promises.FindString(page); m != "" {
			t.Errorf("%s: %q", name, m)
		}
	}
}
