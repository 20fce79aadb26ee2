// Package nginxconf reads the configuration of nginx: words in quotes and without,
// blocks, comments, variables as ${name}, blocks of Lua, and files that it includes.
// It knows the syntax, and no directive but include.
//
// The libraries for this either do not resolve or lose what is needed here
// (docs/decisions/0016-reading-nginx-conf.md): the line on which a directive begins,
// and what follows a closing brace too many.
package nginxconf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fastlimit/fastlimit/internal/namedfile"
)

// Bounds. No configuration comes near; input that is none of nginx's may.
const (
	maxDepth = 64       // of blocks, and of files that include each other
	maxFiles = 4096     // read
	maxBytes = 64 << 20 // in all of them
	maxWords = 1 << 20  // of one directive
)

// Directive is a directive with the place where it begins.
type Directive struct {
	Name   string
	Args   []string
	Block  []Directive // what its braces hold
	Braced bool        // whether it has some

	File string
	Line int
}

// Place is file:line.
func (d *Directive) Place() string { return fmt.Sprintf("%s:%d", d.File, d.Line) }

// Error is a mistake in a file. Line is 0 if it is about the file.
type Error struct {
	File    string
	Line    int
	Problem string
}

// Error is file:line: problem.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Problem
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Problem)
}

// Files is where includes are read from. The zero value reads none.
type Files struct {
	// Prefix is the folder that relative names are in: that of the main file.
	Prefix string
	Read   func(name string) ([]byte, error)
	Glob   func(pattern string) ([]string, error)
}

// Disk reads the files of this machine.
func Disk(prefix string) Files { return Files{prefix, os.ReadFile, filepath.Glob} }

// Parse reads text, which errors call name, and what it includes, whose directives
// stand where the include did. Includes that cannot be read are in missing: a
// configuration is often looked at without all of its files. The error is an
// [*Error], the first there is.
func Parse(name, text string, files Files) (all []Directive, missing []*Error, err error) {
	p := &parser{files: files}
	all, err = p.file(name, text, 0)
	return all, p.missing, err
}

// parser has what all files share. Not safe for concurrent use.
type parser struct {
	files   Files
	read    int // files
	bytes   int
	missing []*Error
}

func (p *parser) file(name, text string, depth int) ([]Directive, error) {
	l := &lexer{file: name, text: strings.TrimPrefix(text, "\ufeff"), line: 1}
	all, end, err := p.block(l, depth)
	if err == nil && end.kind == '}' {
		err = l.fail(end.line, "a closing brace without an opening one")
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// block reads directives up to a closing brace or the end of the file, and returns
// which of the two.
func (p *parser) block(l *lexer, depth int) (all []Directive, end token, err error) {
	if depth > maxDepth {
		return nil, end, l.fail(l.line, "more than %d blocks or files within each other", maxDepth)
	}
	for {
		t, err := l.next()
		switch {
		case err != nil:
			return nil, t, err
		case t.kind == 0, t.kind == '}':
			return all, t, nil
		case t.kind != 'w':
			return nil, t, l.fail(t.line, "%q without a directive before it", t.kind)
		}
		d := Directive{Name: t.text, File: l.file, Line: t.line}
		if err := p.directive(l, &d, depth); err != nil {
			return nil, t, err
		}
		if d.Name != "include" || d.Braced || len(d.Args) != 1 {
			all = append(all, d)
			continue
		}
		included, err := p.include(&d, depth)
		if err != nil {
			return nil, t, err
		}
		all = append(all, included...)
	}
}

// directive reads the arguments of d, and its block.
func (p *parser) directive(l *lexer, d *Directive, depth int) error {
	for {
		t, err := l.next()
		switch {
		case err != nil:
			return err
		case t.kind == 'w' && len(d.Args) < maxWords:
			d.Args = append(d.Args, t.text)
		case t.kind == ';':
			return nil
		case t.kind == '{' && strings.HasSuffix(d.Name, "_by_lua_block"):
			d.Braced = true
			return l.lua()
		case t.kind == '{':
			d.Braced = true
			var end token
			if d.Block, end, err = p.block(l, depth+1); err == nil && end.kind != '}' {
				err = l.fail(d.Line, "the block of %q is not closed", d.Name)
			}
			return err
		default: // the end, a closing brace, or words without end
			return l.fail(d.Line, "%q is not ended by a semicolon", d.Name)
		}
	}
}

// include reads the files that d names, in the order of their names.
func (p *parser) include(d *Directive, depth int) (all []Directive, err error) {
	for _, name := range p.names(d) {
		if p.read++; p.read > maxFiles {
			return nil, &Error{d.File, d.Line, fmt.Sprintf("more than %d files are included", maxFiles)}
		}
		data, err := p.files.Read(name)
		if err != nil {
			p.miss(d, name, err)
			continue
		}
		if p.bytes += len(data); p.bytes > maxBytes {
			return nil, &Error{d.File, d.Line, "the files included are larger than 64 MiB"}
		}
		included, err := p.file(name, string(data), depth+1)
		if err != nil {
			return nil, err
		}
		all = append(all, included...)
	}
	return all, nil
}

// names are the files that a pattern stands for.
func (p *parser) names(d *Directive) []string {
	pattern := d.Args[0]
	if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(p.files.Prefix, pattern)
	}
	if p.files.Read == nil {
		p.miss(d, pattern, errors.New("files are not read here"))
		return nil
	}
	if !strings.ContainsAny(pattern, "*?[") {
		return []string{pattern}
	}
	names, err := p.files.Glob(pattern)
	if err != nil {
		p.miss(d, pattern, err)
	}
	return slices.Sorted(slices.Values(names))
}

func (p *parser) miss(d *Directive, name string, err error) {
	p.missing = append(p.missing, &Error{d.File, d.Line, "include " + name + ": " + namedfile.Cause(err)})
}
