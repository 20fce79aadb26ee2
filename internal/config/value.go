package config

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// value is what a setting may hold: how it is read, what the documents call it,
// and its JSON Schema.
type value struct {
	docs   string
	schema schema

	// read sets to, the field of the setting, and reports what is wrong; then it
	// returns false. nil: not supported by this version.
	read func(d *decoder, n *node, to reflect.Value) bool

	section *section // of a mapping, or of the elements of a list of them
	list    bool
	whole   bool // read is given the struct that the field is in
}

// target is where a setting is read to.
func (f *setting) target(to reflect.Value) reflect.Value {
	if f.value.whole {
		return to
	}
	return fieldOf(to, f.field)
}

// reading is a value of one scalar.
func reading[T any](docs string, s schema, read func(d *decoder, n *node) (T, bool)) value {
	return value{docs: docs, schema: s, read: func(d *decoder, n *node, to reflect.Value) bool {
		v, ok := read(d, n)
		if !ok {
			return false
		}
		from := reflect.ValueOf(v)
		if to.Kind() == reflect.Pointer {
			to.Set(reflect.New(to.Type().Elem()))
			to = to.Elem()
		}
		to.Set(from.Convert(to.Type()))
		return true
	}}
}

// scalar is a value as text.
type scalar struct {
	text     string
	isText   bool // YAML takes it for text
	isNumber bool // it may be read as a number or bool
}

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
	if !ok {
		return scalar{}, false
	}
	if text == "" {
		d.fail(n, "is empty", "want "+want)
		return scalar{}, false
	}
	// A variable may be a number, whatever YAML takes its name for.
	return scalar{text, n.kind != isTyped, n.kind == isText || n.kind == isTyped || expanded}, true
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

func text(docs, want string) value {
	return reading(docs, textSchema(), func(d *decoder, n *node) (string, bool) { return d.text(n, want) })
}

// secret is text that is never shown. A number is one too.
func secret(want string) value {
	return reading("text", schema{"type": []string{"string", "number"}}, func(d *decoder, n *node) (string, bool) {
		s, ok := d.scalar(n, want)
		return s.text, ok
	})
}

// fileOf is the path of a file that holds a value, without the newline that
// editors add.
func fileOf() value {
	return reading("path", textSchema(), func(d *decoder, n *node) (string, bool) {
		path, ok := d.text(n, "the path of a file")
		if !ok {
			return "", false
		}
		if d.machine.readFile == nil {
			d.fail(n, quote(path)+" is not read here", "write the secret itself")
			return "", false
		}
		data, e := d.machine.readFile(path)
		if e != nil {
			d.fail(n, quote(path)+" "+e.Problem, "name a file that can be read")
			return "", false
		}
		return strings.TrimRight(string(data), "\r\n"), true
	})
}

const nameRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

// word is a text of 1 to 64 of the runes.
func word(want, runes string) value {
	s := patternSchema("^[" + strings.NewReplacer(nameRunes, `A-Za-z0-9_.\-`, "[", `\[`, "]", `\]`).Replace(runes) + "]{1,64}$")
	return reading("text", s, func(d *decoder, n *node) (string, bool) {
		s, ok := d.text(n, want)
		if ok && (len(s) > 64 || strings.Trim(s, runes) != "") {
			d.fail(n, quote(s)+" is not a name", "want "+want)
			return "", false
		}
		return s, ok
	})
}

// choice is one of the names, as its index.
func choice(names ...string) value {
	want := strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
	return reading("`"+strings.Join(names, "`, `")+"`", orVariable(schema{"enum": names}), func(d *decoder, n *node) (int, bool) {
		s, ok := d.scalar(n, want)
		if !ok {
			return 0, false
		}
		for i, name := range names {
			if s.text == name {
				return i, true
			}
		}
		d.fail(n, quote(s.text)+" is not a known value", "write "+want)
		return 0, false
	})
}

func boolean() value {
	return reading("true, false", orVariable(schema{"type": "boolean"}), func(d *decoder, n *node) (value, ok bool) {
		s, ok := d.scalar(n, "true or false")
		switch {
		case !ok:
			return false, false
		case s.isNumber && s.text == "true":
			return true, true
		case s.isNumber && s.text == "false":
			return false, true
		}
		d.fail(n, quote(s.text)+" is neither true nor false", "write true or false, without quotes")
		return false, false
	})
}

// number is a whole number within bounds.
type number struct {
	least, most uint64
	example     string
	zero        string // what 0 means, where it is below least; "" if it is refused
	outside     string // what a number out of range is; "" says that it is
	why         string // follows the bounds in messages
}

func whole(b number) value {
	docs := fmt.Sprintf("%d to %d", b.least, b.most)
	s := schema{"type": "integer", "minimum": b.least, "maximum": b.most}
	if b.most == math.MaxUint64 {
		docs = fmt.Sprintf("%d and more", b.least)
		delete(s, "maximum") // 2^64 is no number of JSON's
	}
	if b.zero != "" {
		docs, s = "0, or "+docs, schema{"anyOf": []schema{{"const": 0}, s}}
		b.why = ", or 0 for " + b.zero + b.why
	}
	return reading(docs, orVariable(s), func(d *decoder, n *node) (uint64, bool) {
		v, ok := d.digits(n, b.example)
		switch {
		case !ok, v == 0 && b.zero != "":
		case v == 0 && b.least > 0 && b.outside == "":
			d.fail(n, "0 is too small", "want at least 1")
			return 0, false
		case v < b.least || v > b.most:
			d.fail(n, fmt.Sprintf("%d %s", v, or(b.outside, "is out of range")), fmt.Sprintf("want %d to %d%s", b.least, b.most, b.why))
			return 0, false
		}
		return v, ok
	})
}

// digits reads a whole number in decimal digits.
func (d *decoder) digits(n *node, example string) (uint64, bool) {
	s, ok := d.scalar(n, "a whole number such as "+example)
	if !ok {
		return 0, false
	}
	digits := strings.Trim(s.text, "0123456789") == ""
	v, err := strconv.ParseUint(s.text, 10, 64)
	switch {
	case digits && !s.isNumber:
		d.fail(n, quote(s.text)+" is text", "write the number without quotes")
	case digits && err != nil:
		d.fail(n, clip(s.text, 60)+" is too large", "want a number below 2^64")
	case err != nil:
		d.fail(n, quote(s.text)+" is not a whole number", "write for example "+example)
	default:
		return v, true
	}
	return 0, false
}

// fraction is a number from 0 to 1 in plain decimal notation.
func fraction(example string) value {
	s := orVariable(schema{"type": "number", "minimum": 0, "maximum": 1})
	return reading("0 to 1", s, func(d *decoder, n *node) (float64, bool) {
		s, ok := d.scalar(n, "a number such as "+example)
		if !ok {
			return 0, false
		}
		v, err := strconv.ParseFloat(s.text, 64)
		switch {
		case err != nil || !s.isNumber || strings.Trim(s.text, "-.0123456789") != "":
			d.fail(n, quote(s.text)+" is not a decimal number", "write for example "+example+", without quotes")
			return 0, false
		case v < 0 || v > 1:
			d.fail(n, clip(s.text, 60)+" is out of range", "want 0 to 1")
			return 0, false
		}
		return v, true
	})
}

// span is a time within bounds; why follows them in the message.
func span(least, most time.Duration, example, why string) value {
	s := patternSchema(`^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`)
	if least == 0 {
		s = schema{"anyOf": []schema{s, {"const": 0}}}
	}
	return reading(shortTime(least)+" to "+shortTime(most), s, func(d *decoder, n *node) (time.Duration, bool) {
		s, ok := d.scalar(n, "a time such as "+example)
		if !ok {
			return 0, false
		}
		v, err := time.ParseDuration(s.text)
		switch {
		case err != nil:
			d.fail(n, quote(s.text)+" is not a time", "write for example "+example)
			return 0, false
		case v < least || v > most:
			d.fail(n, clip(s.text, 60)+" is out of range", "want "+shortTime(least)+" to "+shortTime(most)+why)
			return 0, false
		}
		return v, true
	})
}

// shortTime is a time without the zeros behind it: 1h, not 1h0m0s.
func shortTime(t time.Duration) string {
	s := t.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// bytesWithin is a size within bounds; check may refuse more.
func bytesWithin(least, most int64, example, fix, why string, check func(d *decoder, n *node, text string, v int64) bool) value {
	bounds := compactSize(least) + " to " + compactSize(most)
	s := schema{"anyOf": []schema{
		patternSchema(`^[0-9]+ ?(B|[KMGT]i?B)?$`), {"type": "integer", "minimum": least, "maximum": most},
	}}
	return reading(bounds, s, func(d *decoder, n *node) (int64, bool) {
		s, ok := d.scalar(n, "a size such as "+example)
		if !ok {
			return 0, false
		}
		v, ok := parseSize(s.text)
		switch {
		case !ok:
			d.fail(n, quote(s.text)+" is not a size", "write for example "+fix)
			return 0, false
		case v < least || v > most:
			d.fail(n, clip(s.text, 60)+" is out of range", "want "+bounds+why)
			return 0, false
		}
		return v, check == nil || check(d, n, s.text, v)
	})
}

// listOf is a list of values. Broken elements are kept, as zeros, so that the
// others keep their places.
func listOf(docs, want string, element value) value {
	v := value{docs: docs, schema: schema{"type": "array", "items": element.schema}, section: element.section, list: true}
	v.read = func(d *decoder, n *node, to reflect.Value) bool {
		if n.kind != isList {
			d.mismatch(n, want)
			return false
		}
		return readEach(d, n.elements(), to, element)
	}
	return v
}

func readEach(d *decoder, items []*node, to reflect.Value, element value) bool {
	all, ok := reflect.MakeSlice(to.Type(), len(items), len(items)), true
	for i, item := range items {
		ok = element.read(d, item, all.Index(i)) && ok
	}
	if len(items) > 0 {
		to.Set(all)
	}
	return ok
}

// oneOrMore is a value or a list of them. An empty list is an error: it would
// read as "nothing" and mean "everything". most bounds the list.
func oneOrMore(docs string, most int, what string, element value) value {
	return value{docs: docs, schema: oneOrMoreSchema(element.schema, most), list: true, section: element.section, read: func(d *decoder, n *node, to reflect.Value) bool {
		items, ok := d.oneOrMore(n, most, what)
		return readEach(d, items, to, element) && ok
	}}
}

func oneOrMoreSchema(element schema, most int) schema {
	list := schema{"type": "array", "items": element, "minItems": 1}
	if most < unbounded {
		list["maxItems"] = most
	}
	return schema{"anyOf": []schema{element, list}}
}

// oneOrMore returns the elements of a list, or the value itself.
func (d *decoder) oneOrMore(n *node, most int, what string) (items []*node, ok bool) {
	switch {
	case n.kind != isList:
		return []*node{n}, true
	case len(n.items) == 0:
		d.fail(n, "the list is empty", "write an element, or remove the setting")
		return nil, false
	case len(n.items) > most:
		d.fail(n, fmt.Sprintf("%d %s", len(n.items), what), fmt.Sprintf("want at most %d", most))
		return n.elements(), false
	}
	return n.elements(), true
}

// mapping is a value with settings of its own.
func mapping(s *section) value {
	return value{docs: "mapping", section: s, schema: schema{"$ref": "#/$defs/" + s.name}, read: func(d *decoder, n *node, to reflect.Value) bool {
		d.places[n.field] = n
		if to.Kind() == reflect.Pointer {
			to.Set(reflect.New(to.Type().Elem()))
			to = to.Elem()
		}
		return s.read(d, n, to)
	}}
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
