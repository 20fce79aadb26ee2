package nginxconf

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
)

// show writes directives on one line each: place, depth, name and arguments.
func show(all []Directive, depth int) (lines []string) {
	for i := range all {
		d := &all[i]
		lines = append(lines, fmt.Sprintf("%s %s%s %q", d.Place(), strings.Repeat(">", depth), d.Name, d.Args))
		if d.Braced && d.Block == nil {
			lines[len(lines)-1] += " {}"
		}
		lines = append(lines, show(d.Block, depth+1)...)
	}
	return lines
}

// memory has files without a disk.
func memory(files map[string]string) Files {
	return Files{
		Prefix: "/etc/nginx",
		Read: func(name string) ([]byte, error) {
			text, ok := files[name]
			if !ok {
				return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
			}
			return []byte(text), nil
		},
		Glob: func(pattern string) (names []string, err error) {
			for name := range files {
				if ok, err := path.Match(pattern, name); err != nil {
					return nil, err
				} else if ok {
					names = append(names, name)
				}
			}
			return names, nil
		},
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                                   nil,
		"# only a comment":                   nil,
		"a;":                                 {`f:1 a []`},
		"a b  c\n\td;e f;":                   {`f:1 a ["b" "c" "d"]`, `f:2 e ["f"]`},
		"a { b; c { } }\nd;":                 {`f:1 a []`, `f:1 >b []`, `f:1 >c [] {}`, `f:2 d []`},
		"a # x ; {\n b # y }\n;":             {`f:1 a ["b"]`},
		"a b#c;":                             {`f:1 a ["b#c"]`},
		`a "b c;{}#" 'd"' "e\"f";`:           {`f:1 a ["b c;{}#" "d\"" "e\"f"]`},
		`a \d+\.php$ "\d\t\n\\";`:            {`f:1 a ["\\d+\\.php$" "\\d\t\n\\"]`},
		`a b\ c d\;e;`:                       {`f:1 a ["b\\ c" "d\\;e"]`},
		"a ${b}c x$d{ e; }":                  {`f:1 a ["${b}c" "x$d"]`, `f:1 >e []`},
		"a b};":                              {`f:1 a ["b}"]`},
		`a "";`:                              {`f:1 a [""]`},
		`if ($x = "a") { b; }`:               {`f:1 if ["($x" "=" "a" ")"]`, `f:1 >b []`},
		"a\n\"x\ny\"\n;\nb;":                 {`f:1 a ["x\ny"]`, `f:5 b []`},
		"\ufeffa;\r\nb;":                     {`f:1 a []`, `f:2 b []`},
		"map $a $b { default \"\"; ~^x 1; }": {`f:1 map ["$a" "$b"]`, `f:1 >default [""]`, `f:1 >~^x ["1"]`},
		"content_by_lua_block {\n local t = { a = '}', b = \"\\\"}\" } -- }\n --[[ } \n]] x = [==[ } ]] ]==]\n}\nb;": {`f:1 content_by_lua_block [] {}`, `f:6 b []`},
	} {
		all, missing, err := Parse("f", text, Files{})
		if got := show(all, 0); err != nil || len(missing) > 0 || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v, %v; want %q", text, got, missing, err, want)
		}
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a":                            `f:1: "a" is not ended by a semicolon`,
		"x;\na b\nc":                   `f:2: "a" is not ended by a semicolon`,
		"a }":                          `f:1: "a" is not ended by a semicolon`,
		"x;\n}\ny;":                    "f:2: a closing brace without an opening one",
		"x;\na { b;":                   `f:2: the block of "a" is not closed`,
		"x;\n;":                        `f:2: ';' without a directive before it`,
		"{ a; }":                       `f:1: '{' without a directive before it`,
		"x;\na \"b\n":                  "f:2: the quote that begins here is not closed",
		"a 'b'c;":                      `f:1: 'c' follows a closing quote; put a space between them`,
		"x;\na_by_lua_block { [[ }":    "f:2: the block of Lua that begins here is not closed",
		strings.Repeat("a {", 100_000): "f:1: more than 64 blocks or files within each other",
	} {
		if _, _, err := Parse("f", text, Files{}); err == nil || err.Error() != want {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
}

func TestIncludes(t *testing.T) {
	t.Parallel()
	files := memory(map[string]string{
		"/etc/nginx/conf.d/b.conf": "b;\n",
		"/etc/nginx/conf.d/a.conf": "a { include c; }",
		"/etc/nginx/c":             "\nc;",
		"/etc/nginx/self":          "include self;",
		"/etc/nginx/twice":         "include bad; x;",
		"/etc/nginx/bad":           "x;\n}",
	})
	all, missing, err := Parse("n", "x;\ninclude conf.d/*.conf;\ninclude none/*;\ninclude mime.types;\ninclude /else;\ny;", files)
	want := []string{
		`n:1 x []`, `/etc/nginx/conf.d/a.conf:1 a []`, `/etc/nginx/c:2 >c []`, `/etc/nginx/conf.d/b.conf:1 b []`, `n:6 y []`,
	}
	if got := show(all, 0); err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if text := fmt.Sprint(missing); text != "[n:4: include /etc/nginx/mime.types: file does not exist n:5: include /else: file does not exist]" {
		t.Error(text)
	}
	for text, want := range map[string]string{
		"include self;":  "/etc/nginx/self:1: more than 64 blocks or files within each other",
		"include twice;": "/etc/nginx/bad:2: a closing brace without an opening one",
	} {
		if _, _, err := Parse("n", text, files); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, missing, err := Parse("n", "include a;", Files{}); err != nil || len(missing) != 1 {
		t.Errorf("without files: %v, %v", missing, err)
	}
}

// quote writes a word so that it reads as itself.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

func write(b *strings.Builder, all []Directive) {
	for i := range all {
		d := &all[i]
		b.WriteString(quote(d.Name))
		for _, a := range d.Args {
			b.WriteString(" " + quote(a))
		}
		if !d.Braced {
			b.WriteString(";\n")
			continue
		}
		b.WriteString(" {\n")
		write(b, d.Block)
		b.WriteString("}\n")
	}
}

func words(all []Directive, depth int) (out []string) {
	for i := range all {
		out = append(append(append(out, fmt.Sprint(depth), all[i].Name), all[i].Args...), fmt.Sprint(all[i].Braced))
		out = append(out, words(all[i].Block, depth+1)...)
	}
	return out
}

// FuzzParse: whatever is read reads the same when it is written anew, lines are those
// of the text, and mistakes have a place.
func FuzzParse(f *testing.F) {
	f.Add("http { limit_req_zone $binary_remote_addr zone=a:10m rate=1r/s; server { location ~ \\.php$ { limit_req zone=a burst=5 nodelay; } } }")
	f.Add("a \"b\\\"c\" 'd' ${e};\n# f\nx_by_lua_block { '}' [[ } ]] -- }\n }\n")
	f.Add("include a; if ($x) { }")
	f.Add("a\\")
	f.Fuzz(func(t *testing.T, text string) {
		all, _, err := Parse("f", text, Files{})
		if err != nil {
			if e, ok := errors.AsType[*Error](err); !ok || e.Line < 1 || e.Line > 1+strings.Count(text, "\n") || e.Problem == "" {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		var b strings.Builder
		write(&b, all)
		again, _, err := Parse("f", b.String(), Files{})
		if strings.Contains(text, "_by_lua_block") || strings.Contains(text, "include") {
			return // Lua is dropped, and files are read
		}
		if err != nil || !slices.Equal(words(all, 0), words(again, 0)) {
			t.Fatalf("%q:\n%q\nanew, %v:\n%q", text, words(all, 0), err, words(again, 0))
		}
	})
}
