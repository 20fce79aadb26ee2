package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Man is the command that writes the manual pages, for those who make packages.
type Man struct {
	Dir string `arg:"" placeholder:"DIR" help:"Folder to write the pages to, which must exist."`
}

// Run implements the command.
func (m Man) Run(p *Program) error {
	root := p.Parser().Model.Node
	return kong.Visit(root, func(v kong.Visitable, next kong.Next) error {
		node, ok := v.(*kong.Node)
		if !ok || node.Hidden {
			return nil
		}
		if err := os.WriteFile(filepath.Join(m.Dir, pageName(node)+".1"), []byte(p.page(node)), 0o644); err != nil {
			return err
		}
		return next(nil)
	})
}

// pageName is that of the manual page of a command, as git has it: fastlimit-override-set.
func pageName(n *kong.Node) string { return strings.ReplaceAll(commandName(n), " ", "-") }

// commandName is how a command is called: fastlimit override set.
func commandName(n *kong.Node) string {
	if n.Parent == nil {
		return n.Name
	}
	return commandName(n.Parent) + " " + n.Name
}

// page is a manual page in the macros of man(7). It has no date, so that it is the same whenever it is made.
func (p *Program) page(n *kong.Node) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" %s\n", quoted(pageName(n)), quoted(strings.TrimSpace(p.Name+" "+firstLine(p.Version, p.Name))))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escaped(pageName(n)), escaped(summary(n.Help)))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n\\fB%s\\fR%s\n", escaped(commandName(n)), synopsis(n))
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s\n", escaped(n.Help))
	for i, arg := range n.Positional {
		if i == 0 {
			b.WriteString(".SH ARGUMENTS\n")
		}
		fmt.Fprintf(&b, ".TP\n\\fI%s\\fR\n%s\n", escaped(arg.Name), escaped(arg.Help))
	}
	b.WriteString(".SH OPTIONS\n")
	for _, f := range slices.Concat(n.AllFlags(true)...) {
		fmt.Fprintf(&b, ".TP\n%s\n%s\n", option(f), escaped(f.Help))
	}
	commands(&b, n)
	fmt.Fprintf(&b, ".SH EXIT STATUS\n0 on success, %d on failure, %d on wrong usage, 128 and the number of the signal that ended it.\n", ExitFailure, ExitUsage)
	if n.Parent != nil {
		fmt.Fprintf(&b, ".SH SEE ALSO\n\\fB%s\\fR(1)\n", escaped(pageName(n.Parent)))
	}
	return b.String()
}

// commands lists the commands below n, each with its page.
func commands(b *strings.Builder, n *kong.Node) {
	first := true
	for _, c := range n.Children {
		if c.Hidden {
			continue
		}
		if first {
			b.WriteString(".SH COMMANDS\n")
			first = false
		}
		fmt.Fprintf(b, ".TP\n\\fB%s\\fR(1)\n%s\n", escaped(pageName(c)), escaped(c.Help))
	}
}

func synopsis(n *kong.Node) string {
	words := []string{"", "[\\fIflags\\fR]"}
	if len(n.Children) > 0 {
		words = append(words, "\\fIcommand\\fR")
	}
	for _, arg := range n.Positional {
		words = append(words, escaped(arg.Summary()))
	}
	return strings.Join(words, " ")
}

// option shows a flag as it is written: -c, --config=FILE.
func option(f *kong.Flag) string {
	name := "\\fB" + escaped("--"+f.Name) + "\\fR"
	if f.Short != 0 {
		name = "\\fB" + escaped("-"+string(f.Short)) + "\\fR, " + name
	}
	if !f.IsBool() {
		name += "=\\fI" + escaped(f.FormatPlaceHolder()) + "\\fR"
	}
	return name
}

// escaped is text that is printed as it is: no macro begins it, and its dashes can be copied.
func escaped(s string) string {
	s = strings.NewReplacer("\\", "\\e", "-", "\\-", "\n", " ").Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		return "\\&" + s
	}
	return s
}

// quoted is an argument of a macro.
func quoted(s string) string { return "\"" + strings.ReplaceAll(escaped(s), "\"", "\\(dq") + "\"" }

// firstLine is the version alone, of a text that begins with the program's name.
func firstLine(version, name string) string {
	line, _, _ := strings.Cut(version, "\n")
	return strings.TrimPrefix(line, name+" ")
}
