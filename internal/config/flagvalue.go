package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/fastlimit/fastlimit/policy"
)

// ParseKey reads the key of a rule as a flag has it: as in a file, and the parts of a
// composite key separated by commas, such as "ip,path". It fills in the key, and the prefix
// lengths of the limit. The error joins all mistakes, each with its fix.
func ParseKey(flag string) (policy.RuleSpec, error) {
	spec := policy.RuleSpec{}
	n := flagNode(flag)
	if parts := strings.Split(flag, ","); len(parts) > 1 {
		n = &node{kind: isList}
		for _, part := range parts {
			item := flagNode(part)
			item.parent = n
			n.items = append(n.items, item)
		}
	}
	return spec, readFlag(ruleKey(), n, reflect.ValueOf(&spec).Elem())
}

// ParseSize reads a number of bytes from least to most, such as 64MiB, as a file has it.
func ParseSize(flag string, least, most int64) (size int64, err error) {
	err = readFlag(byteSize(least, most, "64MiB", "64MiB", ""), flagNode(flag), reflect.ValueOf(&size).Elem())
	return size, err
}

// flagNode is the value of a flag, without a place: a flag is its own.
func flagNode(text string) *node { return &node{kind: isText, text: strings.TrimSpace(text)} }

// readFlag reads a value with the parser of the file. Shells expand variables in flags,
// so what is left of ${NAME} names none.
func readFlag(v value, n *node, to reflect.Value) error {
	d := &decoder{lookupEnv: func(string) (string, bool) { return "", false }, places: map[string]*node{}, cfg: &Config{}}
	v.read(d, n, to)
	var errs []error
	for _, e := range d.errs {
		errs = append(errs, fmt.Errorf("%s; %s", e.Problem, e.Fix))
	}
	return errors.Join(errs...)
}
