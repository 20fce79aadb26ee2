package config

import (
	"regexp"
	"strings"
)

var (
	// A reference to a variable, or the escape of one. A reference that is not
	// closed runs to the end of the value.
	reference    = regexp.MustCompile(`\$\$\{|\$\{[^}]*\}?`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// expand replaces ${NAME} in a value. The content of a variable is not expanded
// again, so that a secret may contain any text. expanded tells whether there was a
// variable. All variables that are not set are reported, not just the first.
func (d *decoder) expand(n *node, s string) (text string, expanded, ok bool) {
	ok = true
	text = reference.ReplaceAllStringFunc(s, func(ref string) string {
		if ref == "$${" {
			return "${"
		}
		expanded = true
		value, known := d.variable(n, strings.TrimPrefix(ref, "${"))
		ok = ok && known
		return value
	})
	return text, expanded, ok
}

// variable returns the value of the variable that a reference without its ${ names.
func (d *decoder) variable(n *node, ref string) (value string, ok bool) {
	name, closed := strings.CutSuffix(ref, "}")
	switch {
	case !closed:
		d.fail(n, "${ without }", "close it, or write $${ for a literal ${")
		return "", false
	case !variableName.MatchString(name):
		d.fail(n, quote(name)+" is not the name of an environment variable", "write ${NAME}, or $${ for a literal ${")
		return "", false
	}
	if value, ok = d.lookupEnv(name); !ok {
		d.fail(n, "environment variable "+name+" is not set", "set it, or write $${ for a literal ${")
	}
	return value, ok
}
