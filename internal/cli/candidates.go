package cli

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// readFlag reads flags before the cursor: --name, --name=value, -n, -nvalue, or several such as -vn.
func (c *completion) readFlag(w string) {
	name, _, hasValue := strings.Cut(w, "=")
	if strings.HasPrefix(w, "--") {
		f := c.flag(name)
		c.flags[f] = true
		if f != nil && !hasValue && !f.IsBool() {
			c.open = f
		}
		return
	}
	for i, short := range w[1:] {
		f := c.flag("-" + string(short))
		c.flags[f] = true
		if f == nil || !f.IsBool() {
			if f != nil && i == len(w)-2 {
				c.open = f
			}
			return
		}
	}
}

// flag returns a flag of the command, or of one above it, by either of its names; nil if there is none.
func (c *completion) flag(name string) *kong.Flag {
	for _, f := range slices.Concat(c.node.AllFlags(true)...) {
		if name == "--"+f.Name || f.Short != 0 && name == "-"+string(f.Short) {
			return f
		}
	}
	return nil
}

// flagNames are the flags that begin with the prefix and may still be given.
func (c *completion) flagNames(prefix string) (lines []string) {
	for _, f := range slices.Concat(c.node.AllFlags(true)...) {
		if name := "--" + f.Name; strings.HasPrefix(name, prefix) && (!c.flags[f] || f.IsCumulative()) {
			lines = append(lines, line(name, f.Help))
		}
	}
	return lines
}

// words are the commands and arguments that may follow.
func (c *completion) words(prefix string) (lines []string) {
	if c.args == 0 && !c.rest {
		for _, child := range c.node.Children {
			if strings.HasPrefix(child.Name, prefix) && !child.Hidden {
				lines = append(lines, line(child.Name, child.Help))
			}
		}
	}
	args := c.node.Positional
	if len(args) == 0 || c.help {
		return lines
	}
	at := min(c.args, len(args)-1)
	if at < c.args && !args[at].IsCumulative() {
		return lines
	}
	return append(lines, values(args[at], prefix)...)
}

// values are those of a flag or an argument, if it lists them, or what kind of path it is.
func values(v *kong.Value, prefix string) (lines []string) {
	switch {
	case v.Tag.PlaceHolder == "FILE":
		return []string{":file"}
	case v.Tag.PlaceHolder == "DIR":
		return []string{":dir"}
	case v.Enum == "":
		return nil
	}
	for _, name := range v.EnumSlice() {
		if strings.HasPrefix(name, prefix) {
			lines = append(lines, line(name, ""))
		}
	}
	return lines
}

// line is a candidate with a summary of its help.
func line(name, help string) string { return strings.TrimRight(name+"\t"+summary(help), "\t") }

// summary is the first sentence of a help text, without its example.
func summary(help string) string {
	first, _, _ := strings.Cut(help, ". ")
	first, _, _ = strings.Cut(first, ", as in: ")
	return strings.TrimSuffix(first, ".")
}
