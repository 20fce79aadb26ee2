package config

import "strings"

// expand replaces ${NAME} in a value. What a variable holds is not looked at
// again. expanded tells whether there was one.
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

func (d *decoder) variable(n *node, name string) (value string, ok bool) {
	if !isVariable(name) {
		d.fail(n, quote(name)+" is not the name of an environment variable", "write ${NAME}, or $${ for a literal ${")
		return "", false
	}
	if value, ok = d.lookupEnv(name); !ok {
		d.fail(n, "environment variable "+name+" is not set", "set it, or write $${ for a literal ${")
	}
	return value, ok
}

func isVariable(name string) bool {
	for i, r := range name {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
