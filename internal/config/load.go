package config

import (
	"bytes"
	"io"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/fastlimit/fastlimit/internal/mistake"
	"github.com/fastlimit/fastlimit/internal/namedfile"
)

// maxFile is the largest file that is read, in bytes. Long lists of prefixes fit; the
// parser's time is bounded by the number of keys (maxKeys), not by this.
const maxFile = 1 << 20

// Load reads and checks the file at path. lookupEnv resolves ${NAME}; pass
// os.LookupEnv. The error is of type [mistake.Errors].
func Load(path string, lookupEnv func(string) (string, bool)) (*Config, error) {
	data, err := namedfile.Read(path, maxFile)
	if err != nil {
		return nil, mistake.Errors{err}
	}
	return parse(path, data, lookupEnv, thisMachine())
}

// LoadCluster is [Load] for the section cluster alone. It does not look at others.
func LoadCluster(path string, lookupEnv func(string) (string, bool)) (*Cluster, error) {
	data, err := namedfile.Read(path, maxFile)
	if err != nil {
		return nil, mistake.Errors{err}
	}
	d, body := begin(path, data, lookupEnv, thisMachine())
	if body != nil {
		body.members = slices.DeleteFunc(body.members, func(m member) bool { return m.key.text != "cluster" })
		clusterAlone.read(d, body, reflect.ValueOf(d.cfg).Elem())
	}
	c, errs := d.end()
	if errs != nil {
		return nil, errs
	}
	return c.Cluster, nil
}

// LoadFrom is [Load] for the content of r, which errors call name. Settings that
// name a file are relative to the working directory, as with Load.
func LoadFrom(name string, r io.Reader, lookupEnv func(string) (string, bool)) (*Config, error) {
	data, err := namedfile.ReadAll(name, r, maxFile)
	if err != nil {
		return nil, mistake.Errors{err}
	}
	return parse(name, data, lookupEnv, thisMachine())
}

// Parse reads and checks the content of a file, which errors call name. lookupEnv
// resolves ${NAME}; nil means that no variable is set. Parse reads no files and asks
// no name server, so a setting that names a file with a secret is an error. The
// error is of type [mistake.Errors].
func Parse(name string, data []byte, lookupEnv func(string) (string, bool)) (*Config, error) {
	return parse(name, data, lookupEnv, machine{})
}

// parse goes through all stages; see the package comment.
func parse(name string, data []byte, lookupEnv func(string) (string, bool), m machine) (*Config, error) {
	d, body := begin(name, data, lookupEnv, m)
	if body != nil {
		topSettings.read(d, body, reflect.ValueOf(d.cfg).Elem())
	}
	return d.end()
}

// begin returns the content of a file, nil after an error. Text and YAML end at their first
// error, since what follows one could be read in many ways. After that every mistake is
// collected.
func begin(name string, data []byte, lookupEnv func(string) (string, bool), m machine) (*decoder, *node) {
	if lookupEnv == nil {
		lookupEnv = func(string) (string, bool) { return "", false }
	}
	d := &decoder{file: name, lookupEnv: lookupEnv, machine: m, places: map[string]*node{}, definitions: map[string]*definition{}, factors: map[string]float64{}, overrideLines: map[string][]int{}, cfg: &Config{File: name}}
	if read := m.readFile; read != nil {
		d.machine.readFile = func(path string) ([]byte, error) {
			d.cfg.Files = append(d.cfg.Files, path)
			return read(path)
		}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // some editors begin a file with it
	if e := checkText(data); e != nil {
		d.add(e)
		return d, nil
	}
	body, e := parseYAML(data)
	if e != nil {
		d.add(e)
		return d, nil
	}
	if body == nil {
		body = &node{kind: isMapping} // of an empty file
	}
	if body.kind == isMapping { // a missing setting is reported at the start of the file
		body.line, body.column = 1, 1
	}
	d.places[""] = body
	return d, body
}

// end returns what was read, or all mistakes.
func (d *decoder) end() (*Config, error) {
	if len(d.errs) > 0 {
		inOrder(d.errs, d.file)
		return nil, d.errs
	}
	d.cfg.places = make(map[string]place, len(d.places))
	for field, n := range d.places {
		d.cfg.places[field] = place{n.line, n.column, n.path}
	}
	return d.cfg, nil
}

// checkText reports bytes that the tokenizer would misread or let pass: it takes
// invalid UTF-8 and control characters as they are, and they would end up in logs.
func checkText(data []byte) *mistake.Error {
	if len(data) > maxFile {
		return &mistake.Error{Line: 1, Column: 1, Problem: "larger than 1 MiB", Fix: "a configuration is a few KiB: is this the right file?"}
	}
	line, column := 1, 1
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && size == 1:
			return &mistake.Error{Line: line, Column: column, Problem: "not UTF-8", Fix: "save the file as UTF-8"}
		case r == '\n', r == '\r' && !bytes.HasPrefix(data, []byte("\r\n")):
			line, column = line+1, 0
		case r < ' ' && r != '\t' && r != '\r', r == 0x7f:
			return &mistake.Error{Line: line, Column: column, Problem: "control character " + quote(string(r)), Fix: "remove it"}
		}
		data, column = data[size:], column+1
	}
	return nil
}
