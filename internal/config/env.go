package config

import (
	"regexp"
	"strings"
)

// expand replaces ${NAME} in a value. The content of a variable is not expanded
// again. expanded tells whether there was a variable.
func (d *decoder) expand(n *node, s string) (text string, expanded, ok bool) {
	var b strings.Builder
	for ok = true; ; {
		before, after, found := strings.Cut(s, "${")
		if !found {
			b.WriteString(s)
			return b.String(), expanded, ok
		}
		if strings.HasSuffix(before, "$") { // $${ is a literal ${
			b.WriteString(before[:len(before)-1] + "${")
			s = after
			continue
		}
		name, rest, closed := strings.Cut(after, "}")
		if !closed {
			d.fail(n, "${ without }", "close it, or write $${ for a literal ${")
			return "", expanded, false
		}
		value, known := d.variable(n, name)
		b.WriteString(before + value)
		s, expanded, ok = rest, true, ok && known
	}
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (d *decoder) variable(n *node, name string) (value string, ok bool) {
	if !variableName.MatchString(name) {
		d.fail(n, quote(name)+" is not the name of an environment variable", "write ${NAME}, or $${ for a literal ${")
		return "", false
	}
	if value, ok = d.lookupEnv(name); !ok {
		d.fail(n, "environment variable "+name+" is not set", "set it, or write $${ for a literal ${")
	}
	return value, ok
}
