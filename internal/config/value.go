package config

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/fastlimit/fastlimit/internal/safetext"
	"github.com/fastlimit/fastlimit/internal/spelling"
)

// value describes what a setting may hold: how it is read, what the documents
// call it, and its JSON Schema. Values are made by functions such as duration, so a
// type of setting is defined once for the decoder, the documents and editors.
type value struct {
	docs   string
	schema schema

	// read stores the value of n in to, the field of the setting. It reports what
	// is wrong and then returns false. nil: not supported by this version.
	read func(d *decoder, n *node, to reflect.Value) bool

	section  *section // of a mapping, or of the elements of a list of them
	toStruct bool     // read gets the section's struct instead of one field of it
}

// target is what the setting's value is read into.
func (f *setting) target(to reflect.Value) reflect.Value {
	if f.value.toStruct {
		return to
	}
	return fieldOf(to, f.field)
}

// valueOf makes a value of a function that reads one T. A field of a pointer type
// stays nil where the file is silent, so that 0 and "not set" differ.
func valueOf[T any](docs string, s schema, read func(d *decoder, n *node) (T, bool)) value {
	return value{docs: docs, schema: s, read: func(d *decoder, n *node, to reflect.Value) bool {
		v, ok := read(d, n)
		if !ok {
			return false
		}
		if to.Kind() == reflect.Pointer {
			to.Set(reflect.New(to.Type().Elem()))
			to = to.Elem()
		}
		to.Set(reflect.ValueOf(v).Convert(to.Type()))
		return true
	}}
}

// parsed is the value of one scalar, which parse converts. parse says what is
// wrong with it and how to write it; problem is "" if nothing is. want is for
// values that are no scalar.
func parsed[T any](docs string, s schema, want string, parse func(s scalar) (v T, problem, fix string)) value {
	return valueOf(docs, s, func(d *decoder, n *node) (v T, ok bool) {
		s, ok := d.scalar(n, want)
		if !ok {
			return v, false
		}
		v, problem, fix := parse(s)
		if problem != "" {
			d.fail(n, problem, fix)
		}
		return v, problem == ""
	})
}

// scalar is a value as text.
type scalar struct {
	text     string
	isText   bool // YAML takes it for text
	isNumber bool // it may be read as a number or bool
}

// short is the value for a message that shows it without quotes.
func (s scalar) short() string { return safetext.Clip(s.text, maxQuoted) }

// scalar returns a value that is neither list nor mapping, with ${NAME}
// expanded. want says what it should be, with an example: "a rate such as 5/s".
func (d *decoder) scalar(n *node, want string) (scalar, bool) {
	switch n.kind {
	case isText, isQuoted, isBlock, isTyped:
	default:
		d.mismatch(n, want)
		return scalar{}, false
	}
	text, expanded, ok := d.expand(n, n.text)
	if ok && text == "" {
		d.fail(n, "is empty", "want "+want)
		ok = false
	}
	// YAML sees the name of a variable, which is text. What the variable holds may
	// still be a number.
	return scalar{text, n.kind != isTyped, n.kind == isText || n.kind == isTyped || expanded}, ok
}

// text returns a value that is text. Numbers must be quoted, as YAML has read
// them already: 1e3 and 007 would not come out as they were written.
func (d *decoder) text(n *node, want string) (string, bool) {
	s, ok := d.scalar(n, want)
	if ok && !s.isText {
		d.fail(n, s.text+" is not text", "write it in quotes: "+strconv.Quote(s.text))
		return "", false
	}
	return s.text, ok
}

// text is any text. Packages check what it means.
func text(docs, want string) value {
	return valueOf(docs, textSchema(), func(d *decoder, n *node) (string, bool) { return d.text(n, want) })
}

// anyText is text or a number, as a secret may be one. No message of this package
// shows it.
func anyText(docs string, s schema, want string) value {
	return parsed(docs, s, want, func(s scalar) (v, problem, fix string) { return s.text, "", "" })
}

// fileContent is the path of a file that holds the value. Trailing newlines are
// dropped, since editors add one.
func fileContent() value {
	return valueOf("path", textSchema(), func(d *decoder, n *node) (string, bool) {
		text, ok := d.fileContent(n, "write the secret itself")
		return strings.TrimRight(text, "\r\n"), ok
	})
}

// fileContent reads the file that a value names. instead is what to do where no files
// are read.
func (d *decoder) fileContent(n *node, instead string) (text string, ok bool) {
	path, ok := d.text(n, "the path of a file")
	if !ok {
		return "", false
	}
	if d.machine.readFile == nil {
		d.fail(n, quote(path)+" is not read here", instead)
		return "", false
	}
	data, err := d.machine.readFile(path)
	if err != nil {
		d.fail(n, quote(path)+" "+err.Error(), "name a file that can be read")
	}
	return string(data), err == nil
}

// nameRunes are safe in metrics, headers, logs and URLs without being escaped.
const nameRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

const nameWant = "a name of 1 to 64 letters, digits, dots, dashes or underscores"

// nameOf is a text of 1 to 64 of the runes.
func nameOf(want, runes string) value {
	s := patternSchema("^[" + strings.NewReplacer(nameRunes, `A-Za-z0-9_.\-`, "[", `\[`, "]", `\]`).Replace(runes) + "]{1,64}$")
	return valueOf("text", s, func(d *decoder, n *node) (string, bool) {
		s, ok := d.text(n, want)
		if ok && (len(s) > 64 || strings.Trim(s, runes) != "") {
			d.fail(n, quote(s)+" is not a name", "want "+want)
			return "", false
		}
		return s, ok
	})
}

// choice is one of the names, as its index: the constants of the packages are in the
// same order, begin at 0 and have no gaps.
func choice(names ...string) value {
	want := strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
	return parsed("`"+strings.Join(names, "`, `")+"`", orVariable(schema{"enum": names}), want, func(s scalar) (v int, problem, fix string) {
		if v = slices.Index(names, s.text); v < 0 {
			return 0, quote(s.text) + " is not a known value", spelling.Question(s.text, names) + "write " + want
		}
		return v, "", ""
	})
}

// boolean takes neither yes and on, which YAML 1.1 and 1.2 read differently, nor text
// in quotes, unless a variable holds it.
func boolean() value { return truth("true") }

// unless is a boolean for a field that says the opposite, as the zero value has to be the
// default.
func unless() value { return truth("false") }

// truth takes a boolean, and reads yes as true.
func truth(yes string) value {
	return parsed("true, false", orVariable(schema{"type": "boolean"}), "true or false", func(s scalar) (v bool, problem, fix string) {
		if s.isNumber && (s.text == "true" || s.text == "false") {
			return s.text == yes, "", ""
		}
		return false, quote(s.text) + " is neither true nor false", "write true or false, without quotes"
	})
}
