package pgstore

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/remote"
)

// docs/postgres.md has the classes, the privileges and the examples that there are.
func TestDocument(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../docs/postgres.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	var named []string
	_, table, _ := strings.Cut(text, "| what happens | class |")
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) == 6 {
			named = append(named, strings.TrimSpace(cells[2]))
		}
	}
	for _, c := range classes {
		if c != classOther && !slices.Contains(named, c.Name) {
			t.Errorf("class %s is not in the table", c.Name)
		}
	}
	for _, name := range named {
		known := slices.ContainsFunc(classes, func(c *remote.Class) bool { return c.Name == name })
		if !known && !strings.HasPrefix(name, "-") && name != "class" {
			t.Errorf("the table has class %q", name)
		}
	}
	grant := regexp.MustCompile(`(?m)^ *(GRANT .* TO) "?fastlimit"?;$`)
	want := grant.FindAllStringSubmatch((Config{}).SchemaSQL(SchemaOptions{Grant: "fastlimit"}), -1)
	got := grant.FindAllStringSubmatch(text, -1)
	if len(want) != 2 || !slices.EqualFunc(want, got, func(a, b []string) bool { return a[1] == b[1] }) {
		t.Errorf("privileges %q, want those of --grant: %q", got, want)
	}
	at := newSite(t)
	shape := mustShape(t, 1, time.Hour, 5)
	s := mustOpen(t, patient(at.url()))
	if _, err := do(s, bucket.Op{Kind: bucket.Take, Key: "per-ip:192.0.2.7", Shape: shape, Cost: shape.Unit(), Count: 1}); err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile(`(?s)SELECT convert_from.*?;`).FindString(text)
	rows, err := s.driver.pool.Query(t.Context(), example)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	found := false
	for rows.Next() {
		v, err := rows.Values()
		found = found || err == nil && v[0] == "per-ip:192.0.2.7"
	}
	if rows.Err() != nil || !found {
		t.Errorf("%s: %v, the client is there: %t", example, rows.Err(), found)
	}
}
