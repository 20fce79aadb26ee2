package cli

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Help is the command that stands for "PROGRAM help", which [helpArgs] has turned into
// --help before it could run.
type Help struct {
	Command []string `arg:"" optional:"" help:"Command to explain."`
}

// Run implements the command.
func (Help) Run() error { return nil }

// helpArgs turns "help COMMAND" into "COMMAND --help".
func helpArgs(args []string) []string {
	if len(args) == 0 || args[0] != "help" {
		return args
	}
	var command []string
	for _, a := range args[1:] {
		if !strings.HasPrefix(a, "-") { // help --help
			command = append(command, a)
		}
	}
	return append(command, "--help")
}

// commandOf returns the command that the first of args name, and the arguments after its name.
func commandOf(node *kong.Node, args []string) (*kong.Node, []string) {
	for len(args) > 0 {
		i := slices.IndexFunc(node.Children, func(c *kong.Node) bool { return c.Name == args[0] })
		if i < 0 {
			break
		}
		node, args = node.Children[i], args[1:]
	}
	return node, args
}

// oneDash finds a flag such as -config, which is -c with the value onfig, and hardly meant.
func oneDash(command *kong.Node, args []string) (mistake string) {
	for _, a := range args {
		if a == "--" {
			break
		}
		name, _, _ := strings.Cut(a, "=")
		for _, f := range slices.Concat(command.AllFlags(true)...) {
			if name == "-"+f.Name && len(f.Name) > 1 {
				return fmt.Sprintf("unknown flag %s; did you mean -%[1]s?", name)
			}
		}
	}
	return ""
}

// checkFlags refuses flags that are given twice, of which kong would ignore all but
// the last, and empty ones, which would count as not given: -c "$FILE" without a FILE
// must not start the default configuration.
func checkFlags(parsed *kong.Context) error {
	seen := map[*kong.Flag]bool{}
	for _, p := range parsed.Path {
		f := p.Flag
		if f == nil || f.IsCumulative() {
			continue
		}
		if seen[f] {
			return fmt.Errorf("%s is given twice; remove one of the two", flagName(f))
		}
		seen[f] = true
		if f.Target.Kind() == reflect.String && f.Target.String() == "" {
			return fmt.Errorf("%s is empty; give it a value, or leave it out", flagName(f))
		}
	}
	return nil
}

// flagName shows a flag in all spellings, since the user may have written either.
func flagName(f *kong.Flag) string {
	if f.Short != 0 {
		return fmt.Sprintf("-%c (--%s)", f.Short, f.Name)
	}
	return "--" + f.Name
}
