package config

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/fastlimit/fastlimit/internal/safetext"
	"github.com/goccy/go-yaml/token"
)

// The parser knows YAML, but not that the file has settings. These do: a line with a
// setting, and two common misspellings of one.
var (
	settingLine = regexp.MustCompile(`^\s*(?:- +)*["']?[A-Za-z_][\w-]*["']?:(?:\s|$)`)
	noSpace     = regexp.MustCompile(`^\s*(?:- +)*([a-z_]+):(\S)`)
	noDashSpace = regexp.MustCompile(`^\s*-([a-z_]+:)`)
)

const indentFix = `indent all settings of a block alike, and put a value that contains ": " in quotes`

// describeSyntax recognizes mistakes that the parser describes in misleading terms:
// wrong indentation and missing spaces. Otherwise the problem is the parser's message.
func describeSyntax(t *token.Token, msg string, data []byte) (problem, fix string) {
	line := strings.TrimRight(sourceLine(data, t.Position.Line), "\r\n")
	if m := noDashSpace.FindStringSubmatch(line); m != nil {
		return "no space after the dash", "write - " + safetext.Clip(m[1], maxQuoted) + " with one"
	}
	lines := []string{line}
	if strings.Contains(msg, "non-map value") { // the parser blames the line before the faulty one
		lines = append(lines, strings.TrimRight(sourceLine(data, t.Position.Line+1), "\r\n"))
	}
	for _, l := range lines {
		if m := noSpace.FindStringSubmatch(l); m != nil && !strings.HasPrefix(l[len(m[0])-1:], "//") && !settingLine.MatchString(l) {
			return "no space after " + quote(m[1]+":"), "write one between it and the value"
		}
	}
	next := strings.TrimRight(sourceLine(data, t.Position.Line+1), "\r\n")
	if strings.HasPrefix(msg, "mapping value is not allowed") && settingLine.MatchString(next) && indent(next) > indent(line) {
		return fmt.Sprintf("line %d is indented more than this one, which has a value", t.Position.Line+1), "indent all settings of a block alike"
	}
	misplaced := strings.HasPrefix(msg, "value is not allowed") || strings.Contains(msg, "non-map value")
	if misplaced && settingLine.MatchString(line) {
		return "indented unlike the settings it belongs to", indentFix
	}
	return "YAML: " + oneLine(msg), syntaxFix(msg, line)
}

// The functions above depend on words of the parser's messages (go-yaml 1.19.2). If an
// update changes them, golden tests fail and users see the parser's own words.

// oneLine shortens a message of the parser, which may quote the file, to one line.
func oneLine(msg string) string {
	return safetext.Clip(strings.NewReplacer("\n", " ", "\r", " ").Replace(msg), 200)
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
