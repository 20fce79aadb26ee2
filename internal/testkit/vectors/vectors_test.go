package vectors_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit/vectors"
)

// Every behaviour of the sources with waiting, blocks and users has a vector, and every
// vector of theirs a behaviour; what fastlimit does not do is in docs/migrate.md, word for
// word, and nothing else is.
func TestBehavioursAreListed(t *testing.T) {
	t.Parallel()
	sources := []string{"NERD", "prorate", "pecorino"}
	unused := map[string]bool{}
	for _, v := range vectors.All() {
		first, _, _ := strings.Cut(v.Name, " ")
		if slices.ContainsFunc(sources, func(s string) bool { return strings.EqualFold(s, first) }) {
			unused[v.Name] = true
		}
	}
	known := func(name string) bool { _, ok := unused[name]; return ok }
	var want []string
	for _, b := range vectors.Behaviours() {
		if !slices.Contains(sources, b.Source) || len(b.Vectors) == 0 || (b.Missing == "") != (b.Instead == "") {
			t.Errorf("%+v: want one of the sources, vectors, and what is done instead if it is missing", b)
		}
		for _, name := range b.Vectors {
			if !known(name) {
				t.Errorf("%s: %s: there is no vector %q of %v", b.Source, b.Does, name, sources)
			}
			unused[name] = false
		}
		if b.Missing != "" {
			want = append(want, "| "+strings.Join([]string{b.Source, b.Does, string(b.Missing), b.Instead}, " | ")+" |")
		}
	}
	for name, is := range unused {
		if is {
			t.Errorf("vector %q is of no behaviour", name)
		}
	}
	text, err := os.ReadFile("../../../docs/migrate.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| (NERD|prorate|pecorino) \| .*$`).FindAllString(string(text), -1)
	got := slices.DeleteFunc(rows, func(row string) bool { return strings.Count(row, " | ") != 3 }) // heads of tables
	if !slices.Equal(got, want) {
		t.Errorf("docs/migrate.md lists\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
