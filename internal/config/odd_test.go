package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/mistake"
)

// oddValues take the place of every value of a good file in turn.
var oddValues = []string{
	"", "~", "null", "0", "-1", "1e3", "0x10", "1_000", "007", "99999999999999999999", "1.5", ".5", ".nan", ".inf", "true", "yes", "on",
	`""`, `" "`, "''", `"\u0000"`, `"\n"`, "'a\n  b'", "|", ">-", "[]", "{}", "[[]]", "[{}]", "{a: b}", "[a, b]", "- a", "? a", ": a", "*a", "&a b", "!!str a",
	"!x y", "<<", "@a", "`a`", "%a", "a: b", "a:b", "a #b", "#", "${NONE}", "${", "${}", "$${A}", "${A B}", "ä", "\u2028", "\U0001F600", "\ufeff",
	"100/s", "5/0s", "/", "1/d/d", "-5/s", "1000000001/s", "127.0.0.1:80", ":0", "[::1]:1", "::1:1", "host:http", "127.0.0.1:65536", "10.0.0.0/33",
	"::/129", "::ffff:1.2.3.4/8", "64MiB", "1B", "9999999TiB", "5ms", "5", "1h", "redis://h", "rediss://", "unix:", "ip/0/0", "ip/a/b", "header:", "cookie:=", "[ip, ip]",
	strings.Repeat("a", 5000), strings.Repeat("[", 40), strings.Repeat("a: ", 40), strings.Repeat("9", 400), strings.Repeat("*", 2000),
}

// oddFiles are variants of a good file: each line gone, twice, moved by a blank
// or a tab, cut in half, without its colon or with another value; and the file
// cut off after each of its bytes, by steps.
func oddFiles(text string) (all []string) {
	lines := strings.SplitAfter(text, "\n")
	with := func(i int, line string) {
		all = append(all, strings.Join(lines[:i], "")+line+strings.Join(lines[i+1:], ""))
	}
	for i, line := range lines {
		if content := strings.TrimSpace(line); content == "" || content[0] == '#' {
			continue
		}
		for _, l := range []string{
			"", line + line, " " + line, "  " + line, "\t" + line, strings.TrimPrefix(line, " "), strings.TrimLeft(line, " "), "- " + line, "-" + line, "---\n" + line,
			line[:len(line)/2] + "\n", line[:len(line)/2], strings.Replace(line, ":", "", 1), strings.Replace(line, ": ", ":", 1), strings.Replace(line, ":", ": :", 1),
			strings.Replace(line, "\n", "\r", 1), "{" + line, "[" + line, `"` + line, "'" + line, strings.ToUpper(line), line[:len(line)-1] + " }\n",
		} {
			with(i, l)
		}
		if key, _, ok := strings.Cut(line, ": "); ok {
			for _, v := range oddValues {
				with(i, key+": "+v+"\n")
			}
		}
	}
	for i := 0; i < len(text); i += 7 {
		all = append(all, text[:i], text[i:])
	}
	return all
}

// goodFiles are the example with what it only mentions taken in, and the flow
// style of the contract.
func goodFiles(t *testing.T) []string {
	t.Helper()
	example, err := os.ReadFile(filepath.Join("..", "..", "fastlimit.example.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const full = `listen:
  - 127.0.0.1:8080
  - address: "[::1]:8082"
    deny_status: 403
    headers: [ratelimit, x-ratelimit]
    headers_on: always
admin: 127.0.0.1:8081
redis:
  addresses: ["10.0.0.1:26379"]
  master_name: edge
  sentinel_username: u
  sentinel_password: p
  database: 1
  tls: true
  server_name: a.example
  workers: 2
  queue: 10
  retry_min: 100ms
  retry_max: 2s
  timeout: 5ms
cluster:
  name: edge
  bind: 10.0.0.1:7946
  join: ["10.0.0.2:7946"]
  secret: 0123456789abcdef
  top_talkers: 64
rules:
  - name: a
    key: [ip/24/48, header:X-Api-Key]
    match:
      path: ["/api/*", /login]
      method: POST
    rate: 100/s
    on_failure: closed
`
	contract, err := os.ReadFile(filepath.Join("testdata", "contract.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return []string{string(example), full, string(contract)}
}

// checkErrors holds what a person who wrote the file needs of every error: its
// place, what is wrong, and what to write, on one line.
func checkErrors(t *testing.T, name, text string, err error) {
	t.Helper()
	var all mistake.Errors
	if !errors.As(err, &all) || len(all) == 0 {
		t.Fatalf("%T %v", err, err)
	}
	lines := 2 + strings.Count(text, "\n") + strings.Count(text, "\r")
	for _, e := range all {
		line := e.Error()
		switch {
		case e.Line < 1 || e.Column < 1 || e.Line > lines || e.Column > len(text)+2:
			t.Errorf("no such place: %v", e)
		case !strings.HasPrefix(line, fmt.Sprintf("%s:%d:%d: ", name, e.Line, e.Column)):
			t.Errorf("no place in %q", line)
		case strings.ContainsAny(line, "\n\r") || len(line) > 4096:
			t.Errorf("not a line: %.5000q", line)
		case e.Problem == "" || e.Fix == "":
			t.Errorf("no fix: %.500q", line)
		}
	}
}

// Whatever is done to a file, it is read or refused with errors that help, and
// what is read can be planned, described and warned of.
func TestOddFiles(t *testing.T) {
	t.Parallel()
	const steps = 7 // 1 with FASTLIMIT_ODD_FILES=all
	step := steps
	if os.Getenv("FASTLIMIT_ODD_FILES") == "all" {
		step = 1
	}
	files, refused, seen := 0, 0, 0
	for _, text := range goodFiles(t) {
		for _, odd := range oddFiles(text) {
			if seen++; seen%step != 0 {
				continue
			}
			files++
			c, err := parse("odd.yaml", []byte(odd), noEnv, machine{memory: 1 << 30})
			if err != nil {
				refused++
				checkErrors(t, "odd.yaml", odd, err)
				continue
			}
			p, err := fastlimit.NewPlan(c.Limiter())
			if err != nil {
				t.Errorf("%s\naccepted, and refused by the limiter: %v", odd, err)
				continue
			}
			if Describe(c, p) == "" {
				t.Error("nothing to describe")
			}
			for _, w := range Warnings(c, p) {
				if strings.ContainsAny(w, "\n\r") {
					t.Errorf("not a line: %q", w)
				}
			}
		}
		if t.Failed() {
			break
		}
	}
	if files < 321 || refused < files/2 {
		t.Errorf("%d of %d files refused: want at least 321 files, and most of them refused", refused, files)
	}
	t.Logf("%d files, %d refused", files, refused)
}
