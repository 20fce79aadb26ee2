package cli

import (
	"embed"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// completeArg is the first argument of a call by a shell's script, which asks how the words that follow
// may go on. The last one is the word at the cursor.
const completeArg = "__complete"

// shells are the scripts, a file for each shell. They only ask the program and show its answer, so that
// they need not be written anew for each version.
//
//go:embed shells
var shells embed.FS

// Completion is the command that prints a script for a shell.
type Completion struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Run implements the command.
func (c Completion) Run(p *Program) error {
	script, err := shells.ReadFile("shells/" + c.Shell)
	if err != nil {
		return err
	}
	_, err = io.WriteString(p.Stdout, strings.ReplaceAll(string(script), "PROGRAM", p.Name))
	return err
}

// complete answers a shell: a line for each candidate, with its help after a tab, or one line that has the
// shell complete the path of a file or a folder.
func (p *Program) complete(words []string) {
	c := completion{root: p.Parser().Model.Node}
	c.node = c.root
	for _, line := range c.candidates(words) {
		fmt.Fprintln(p.Stdout, line)
	}
}

// completion is how far a command line has been read.
type completion struct {
	root, node *kong.Node
	args       int                 // how many arguments of node
	flags      map[*kong.Flag]bool // that are given
	open       *kong.Flag          // waits for its value
	rest       bool                // after --: no flags and commands
	help       bool                // of the command help: only commands
}

func (c *completion) candidates(words []string) []string {
	if len(words) == 0 {
		return nil
	}
	if c.help = len(words) > 1 && words[0] == "help"; c.help {
		words = words[1:]
	}
	words = joined(words)
	last := words[len(words)-1]
	c.flags = map[*kong.Flag]bool{}
	for _, w := range words[:len(words)-1] {
		c.read(w)
	}
	name, value, isValue := strings.Cut(last, "=")
	switch {
	case c.open != nil:
		return values(c.open.Value, last)
	case !c.rest && isValue && strings.HasPrefix(last, "--"):
		if f := c.flag(name); f != nil {
			return values(f.Value, value)
		}
		return nil
	case !c.rest && !c.help && strings.HasPrefix(last, "-"):
		return c.flagNames(last)
	}
	return c.words(last)
}

// joined undoes that bash takes the = between a flag and its value for a word.
func joined(words []string) []string {
	var whole []string
	for i, w := range words {
		switch {
		case w == "=" && i > 0 && strings.HasPrefix(words[i-1], "--"):
			whole[len(whole)-1] += "="
		case i > 1 && words[i-1] == "=" && strings.HasPrefix(words[i-2], "--"):
			whole[len(whole)-1] += w
		default:
			whole = append(whole, w)
		}
	}
	return whole
}

// read reads a word before the cursor.
func (c *completion) read(w string) {
	switch {
	case c.open != nil:
		c.open = nil
	case c.rest:
		c.args++
	case w == "--":
		c.rest = true
	case strings.HasPrefix(w, "-") && w != "-":
		c.readFlag(w)
	default:
		for _, child := range c.node.Children {
			if child.Name == w {
				c.node, c.args = child, 0
				return
			}
		}
		c.args++
	}
}
