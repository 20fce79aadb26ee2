package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/fastlimit/fastlimit/internal/spelling"
)

// mistakeOf says what is wrong on the command line, and asks for the name that was probably meant. kong
// suggests names too, but of those with two other letters it suggests all: top for foo.
func mistakeOf(err error) string {
	var wrong *kong.ParseError
	if !errors.As(err, &wrong) {
		return err.Error() + ";"
	}
	text, meant := err.Error(), ""
	last := wrong.Context.Path[len(wrong.Context.Path)-1]
	rest := last.Remainder()
	if len(rest) > 1 && rest[0] == "--" {
		rest = rest[1:]
	}
	if len(rest) > 0 {
		node := wrong.Context.Selected()
		if node == nil {
			node = wrong.Context.Model.Node
		}
		word, _, _ := strings.Cut(rest[0], "=")
		switch {
		case strings.HasPrefix(text, "unknown flag "+word):
			text, meant = "unknown flag "+word, nearestFlag(word, node)
		case strings.HasPrefix(text, "unexpected argument "+rest[0]):
			text, meant = unexpected(rest[0], node)
		}
	}
	if meant == "" {
		meant = nearestValue(wrong.Context)
	}
	if meant == "" {
		return text + ";"
	}
	return fmt.Sprintf("%s; did you mean %s?", text, meant)
}

// unexpected is about an argument that node does not have.
func unexpected(word string, node *kong.Node) (text, meant string) {
	if len(node.Children) == 0 {
		return "unexpected argument " + word, ""
	}
	var names []string
	for _, c := range node.Children {
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	return "unknown command " + word, spelling.Nearest(word, names)
}

func nearestFlag(word string, node *kong.Node) string {
	name, long := strings.CutPrefix(word, "--")
	if !long {
		return ""
	}
	var names []string
	for _, f := range slices.Concat(node.AllFlags(true)...) {
		names = append(names, f.Name)
	}
	if best := spelling.Nearest(name, names); best != "" {
		return "--" + best
	}
	return ""
}

// nearestValue is about the value of a flag that has a list of them.
func nearestValue(parsed *kong.Context) string {
	for _, p := range parsed.Path {
		if p.Flag == nil || p.Flag.Enum == "" {
			continue
		}
		value := fmt.Sprint(parsed.FlagValue(p.Flag))
		if names := p.Flag.EnumSlice(); !slices.Contains(names, value) {
			return spelling.Nearest(value, names)
		}
	}
	return ""
}
