package config

import (
	"strings"
	"testing"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "rules: [{name: per-ip, rate: 100/s, burst: 200}, {name: a-long-name, rate: 5/h, burst: 3, strict: true, mode: shadow}]")
	p := plan(t, c)
	text := Describe(c, p)
	for _, want := range []string{
		"memory 64 MiB, of which ", "first-seen filter ", " clients for 3s\n",
		"half of them are in use,\nand the chance that a suspect finds none free is below 1 in 10^",
		"301 at once, then 100/s\n", "3 at once, then 5/h\n", "shadow", "none",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	lines := strings.Split(text, "\n")
	table := lines[len(lines)-4 : len(lines)-1]
	for _, column := range []string{"limit", "carries", "a client gets at most"} {
		at := strings.Index(table[0], column)
		for _, row := range table[1:] {
			if at <= 0 || row[at-1] != ' ' || row[at] == ' ' {
				t.Errorf("column %q is not aligned in\n%s", column, text)
			}
		}
	}
	alone := mustParse(t, "rules: [{name: a, rate: 5/h, strict: true}]")
	if text := Describe(alone, plan(t, alone)); !strings.Contains(text, "first-seen filter: none") {
		t.Error(text)
	}
}

func TestNumbersForPeople(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 64 << 20: "64 MiB", 1 << 40: "1 TiB", 1 << 50: "1024 TiB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %s, want %s", n, got, want)
		}
	}
	for v, want := range map[float64]string{0.05: "0.1 requests/s", 0.04: "3.5k requests/day", 1e-5: "0.9 requests/day", 1500: "1.5k requests/s"} {
		if got := perSecond(v); got != want {
			t.Errorf("perSecond(%v) = %s, want %s", v, got, want)
		}
	}
	for v, want := range map[float64]string{0.5: "0.5", 21: "21", 1500: "1.5k", 2e6: "2M", 3e12: "3000G"} {
		if got := count(v); got != want {
			t.Errorf("count(%v) = %s, want %s", v, got, want)
		}
	}
}
