package config

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"unicode/utf8"
)

// maxFile is the largest file that is read, in bytes.
const maxFile = 1 << 20

// Load reads and checks the file at path. lookupEnv resolves ${NAME}; pass
// os.LookupEnv. The error is of type [Errors].
func Load(path string, lookupEnv func(string) (string, bool)) (*Config, error) {
	data, err := read(path)
	if err != nil {
		return nil, Errors{err}
	}
	return parse(path, data, lookupEnv, read)
}

func read(path string) ([]byte, *Error) {
	fail := func(problem, fix string) ([]byte, *Error) {
		return nil, &Error{File: path, Problem: problem, Fix: fix}
	}
	f, err := os.Open(path)
	if err != nil {
		return fail(openProblem(err))
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.IsDir() {
		return fail("is a directory", "name a file in it")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return fail("cannot be read: "+err.Error(), "")
	}
	return data, nil
}

func openProblem(err error) (problem, fix string) {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no such file", "check the path given with -c"
	case errors.Is(err, fs.ErrPermission):
		return "permission denied", "make it readable for the user that runs fastlimit"
	}
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	return "cannot be opened: " + err.Error(), ""
}

// Parse checks the content of a file; name stands for it in errors. lookupEnv
// resolves ${NAME}; nil knows no variables. Parse touches nothing but its
// arguments, so settings that name a file with a secret are errors. The error
// is of type [Errors].
func Parse(name string, data []byte, lookupEnv func(string) (string, bool)) (*Config, error) {
	noFiles := func(string) ([]byte, *Error) { return nil, &Error{Problem: "is not read here"} }
	return parse(name, data, lookupEnv, noFiles)
}

func parse(name string, data []byte, lookupEnv func(string) (string, bool), readFile func(string) ([]byte, *Error)) (*Config, error) {
	if lookupEnv == nil {
		lookupEnv = func(string) (string, bool) { return "", false }
	}
	d := &decoder{file: name, lookupEnv: lookupEnv, readFile: readFile, cfg: defaults()}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if e := checkText(data); e != nil {
		d.add(e)
		return nil, d.errs
	}
	body, e := parseYAML(data)
	if e != nil {
		d.add(e)
		return nil, d.errs
	}
	d.top(body)
	if len(d.errs) > 0 {
		d.errs.sort()
		return nil, d.errs
	}
	return d.cfg, nil
}

// checkText finds what the tokenizer would misread or let pass.
func checkText(data []byte) *Error {
	if len(data) > maxFile {
		return &Error{Problem: "larger than 1 MiB", Fix: "a configuration is a few KiB: is this the right file?"}
	}
	line, column := 1, 1
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && size == 1:
			return &Error{Line: line, Column: column, Problem: "not UTF-8", Fix: "save the file as UTF-8"}
		case r == '\n', r == '\r' && !bytes.HasPrefix(data, []byte("\r\n")):
			line, column = line+1, 0
		case r < ' ' && r != '\t' && r != '\r', r == 0x7f:
			return &Error{Line: line, Column: column, Problem: "control character " + quote(string(r)), Fix: "remove it"}
		}
		data, column = data[size:], column+1
	}
	return nil
}
