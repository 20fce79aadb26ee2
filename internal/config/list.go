package config

import (
	"fmt"
	"math"
	"reflect"
)

const unbounded = math.MaxInt32 // elements, where the list has no bound of its own

// listOf is a list of values. An element that failed is kept as a zero, so that the
// indices of the others stay those of the file.
func listOf(docs, want string, element value) value {
	v := value{docs: docs, schema: schema{"type": "array", "items": element.schema}, section: element.section}
	v.read = func(d *decoder, n *node, to reflect.Value) bool {
		if n.kind != isList {
			d.mismatch(n, want)
			return false
		}
		return readEach(d, d.elements(n), to, element)
	}
	return v
}

// readEach reads into a slice of its own length. Nothing is set for an empty list, so
// that it is nil, as it is without the setting.
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

// oneOrMore is a value or a list of at most that many. An empty list is an error: it
// reads as "nothing", but a match without patterns matches everything. what names
// the elements in messages.
func oneOrMore(docs string, most int, what string, element value) value {
	return value{docs: docs, schema: oneOrMoreSchema(element.schema, most), section: element.section, read: func(d *decoder, n *node, to reflect.Value) bool {
		items, ok := d.oneOrMore(n, most, what)
		return readEach(d, items, to, element) && ok
	}}
}

// oneOrMoreSchema is the shape of oneOrMore. It bounds the list only where the decoder
// does: editors would flag files that load.
func oneOrMoreSchema(element schema, most int) schema {
	list := schema{"type": "array", "items": element, "minItems": 1}
	if most < unbounded {
		list["maxItems"] = most
	}
	return schema{"anyOf": []schema{element, list}}
}

// elements are the items of a list, with their paths. Paths are set when a node is read
// instead of when it is made: only the sections know which field a setting fills.
func (d *decoder) elements(list *node) []*node {
	for i, item := range list.items {
		item.path, item.field = fmt.Sprintf("%s[%d]", list.path, i), fmt.Sprintf("%s[%d]", list.field, i)
		d.places[item.field] = item
	}
	return list.items
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
		return d.elements(n), false
	}
	return d.elements(n), true
}

// distinct reads each item and reports those that repeat an earlier one: the second is
// more likely a slip, such as a line that was copied and not changed, than meant. read
// returns the value, and how to show it in the message that it is what already.
func distinct[T comparable](d *decoder, items []*node, what string, read func(item *node) (v T, shown string, ok bool)) (all []T) {
	seen := map[T]bool{} // a file has room for a hundred thousand patterns
	for _, item := range items {
		switch v, shown, ok := read(item); {
		case !ok:
		case seen[v]:
			d.fail(item, quote(shown)+" is "+what+" already", "remove it")
		default:
			seen[v], all = true, append(all, v)
		}
	}
	return all
}

// mapping is a value with settings of its own. A pointer stays nil without the setting,
// which is how a section is turned off.
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
