package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"

	"github.com/fastlimit/fastlimit/internal/lists"
	"github.com/fastlimit/fastlimit/internal/safetext"
	"github.com/fastlimit/fastlimit/policy"
)

const listExample = "a list such as [192.0.2.0/24, {file: cdn.txt}]"

// listFileSettings is an element of allow or deny that stands for the entries of a file.
var listFileSettings = section{
	name: "list_file", want: "a prefix, or a file of them: {file: cdn.txt}", where: "in an element of allow or deny",
	settings: []setting{
		{
			name: "file", field: "Path", value: text("path", "the path of a file"), required: "name a file: {file: cdn.txt}",
			doc: "a file with one address or prefix on each line; read again when it changes, and on SIGHUP",
		},
	},
}

// accessList is allow or deny: a list of prefixes and files, or one file. It fills in all
// entries; which of them are of files, d.cfg.Lists knows.
func accessList(list policy.ListVerdict) value {
	file, prefix := mapping(&listFileSettings), prefix()
	v := value{docs: "list of prefixes and files, or a file", section: &listFileSettings}
	v.schema = schema{"anyOf": []schema{file.schema, {"type": "array", "items": schema{"anyOf": []schema{prefix.schema, file.schema}}}}}
	v.read = func(d *decoder, n *node, to reflect.Value) bool {
		items := []*node{n}
		if n.kind == isList {
			items = d.elements(n)
		} else if n.kind != isMapping {
			d.mismatch(n, listExample)
			return false
		}
		inline, files, ok := d.readList(list, items, prefix, file)
		d.keepList(n, list, inline, files, to)
		return ok
	}
	return v
}

// readList reads the elements of a list.
func (d *decoder) readList(list policy.ListVerdict, items []*node, prefix, file value) (inline []netip.Prefix, files []lists.File, ok bool) {
	ok = true
	for _, item := range items {
		if item.kind != isMapping {
			var p netip.Prefix
			ok = prefix.read(d, item, reflect.ValueOf(&p).Elem()) && ok
			inline = append(inline, p)
			continue
		}
		f := lists.File{List: list}
		if !file.read(d, item, reflect.ValueOf(&f).Elem()) || item.failed {
			ok = false
			continue
		}
		at := d.places[join(item.field, "Path")]
		for i := range files {
			if files[i].Path == f.Path {
				d.fail(at, quote(f.Path)+" is already in the list", "remove one of the two")
			}
		}
		ok = d.readListFile(at, &f) && ok
		files = append(files, f)
	}
	return inline, files, ok
}

// readListFile reads the entries of a file. Its mistakes have their places in that file.
func (d *decoder) readListFile(n *node, f *lists.File) (ok bool) {
	text, ok := d.fileContent(n, "write the prefixes themselves")
	if !ok {
		return false
	}
	if len(text) > lists.MaxFile {
		d.fail(n, quote(f.Path)+" is larger than "+compactSize(lists.MaxFile), "is this the right file?")
		return false
	}
	var wrong []lists.Mistake
	f.Prefixes, wrong = lists.Parse([]byte(text))
	for i := range wrong {
		m := &wrong[i]
		d.failIn(f.Path, m.Line, m.Column, n, m.Problem, m.Fix)
	}
	return len(wrong) == 0
}

// keepList keeps what a list has. The entries of its files are parts of all of them, so
// that they are in memory once.
func (d *decoder) keepList(n *node, list policy.ListVerdict, inline []netip.Prefix, files []lists.File, to reflect.Value) {
	count := len(inline)
	for i := range files {
		count += len(files[i].Prefixes)
	}
	c := &d.cfg.Lists
	if both := count + c.Count(); both > lists.MaxEntries {
		d.fail(n, fmt.Sprintf("%d entries of allow and deny", both), fmt.Sprintf("want at most %d: merge neighbours into shorter prefixes", lists.MaxEntries))
		return
	}
	all := append(make([]netip.Prefix, 0, count), inline...)
	for i := range files {
		first := len(all)
		all = append(all, files[i].Prefixes...)
		files[i].Prefixes = all[first:len(all):len(all)]
	}
	inline = all[:len(inline):len(inline)]
	if list == policy.ListDeny {
		c.Deny = inline
	} else {
		c.Allow = inline
	}
	c.Files = append(c.Files, files...)
	if len(all) > 0 {
		to.Set(reflect.ValueOf(all))
	}
}

// ListMemory is the most memory that the entries of allow and deny take, in bytes: beside
// memory, with what is needed to replace them.
func (c *Config) ListMemory() int64 { return int64(c.Lists.Count()) * lists.EntryBytes }

// describeLists says how long the lists are, if files have a part of them.
func describeLists(b *strings.Builder, c *Config) {
	if len(c.Lists.Files) == 0 {
		return
	}
	fmt.Fprintf(b, "lists: %d entries of allow, %d of deny, at most %s on top of memory", len(c.Policy.Allow), len(c.Policy.Deny), size(c.ListMemory()))
	for i := range c.Lists.Files {
		f := &c.Lists.Files[i]
		fmt.Fprintf(b, "%s %d from %s", [...]string{";", ","}[min(i, 1)], len(f.Prefixes), safetext.Clip(f.Path, maxQuoted))
	}
	b.WriteByte('\n')
}

// maxListWarnings bounds the warnings about entries: a file may have a million.
const maxListWarnings = 10

// A shorter prefix on the allow list exempts more than any one network has:
// 10.0.0.0/8 and fc00::/7 are the widest private ranges.
const (
	widestPrivate4 = 8
	widestPrivate6 = 7
)

// listWarnings are about allow and deny: an entry that is too wide turns the limiter
// off for most clients, and nothing in the metrics would look wrong.
func listWarnings(c *Config, warn warnFunc) {
	for i := range c.Lists.Files {
		if f := &c.Lists.Files[i]; len(f.Prefixes) == 0 {
			warn("%v: %s has no entries", f.List, safetext.Clip(f.Path, maxQuoted))
		}
	}
	denied := make(map[netip.Prefix]bool, len(c.Policy.Deny))
	for _, p := range c.Policy.Deny {
		denied[p] = true
	}
	told := 0
	for _, p := range c.Policy.Allow {
		text := entryWarning(p, denied[p])
		if text == "" {
			continue
		}
		if told++; told <= maxListWarnings {
			warn("%s", text)
		}
	}
	if told > maxListWarnings {
		warn("allow: %d more entries like these", told-maxListWarnings)
	}
}

// entryWarning is what is doubtful about an entry of allow, "" if nothing is.
func entryWarning(p netip.Prefix, denied bool) string {
	family, narrow := "IPv4", widestPrivate4
	if p.Addr().Is6() {
		family, narrow = "IPv6", widestPrivate6
	}
	switch {
	case denied:
		return fmt.Sprintf("allow, deny: %v is in both lists: deny wins", p)
	case p.Bits() == 0:
		return fmt.Sprintf("allow: %v covers every %s client: no rule limits any of them; remove it", p, family)
	case p.Bits() < narrow:
		return fmt.Sprintf("allow: %v is a large part of the %s internet, which no rule limits; write a longer prefix", p, family)
	}
	return ""
}
