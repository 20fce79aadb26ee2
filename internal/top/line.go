package top

import "strings"

// Style is the look of a text. All but Plain, Bold, Dim and the reverse ones are colors.
type Style uint8

// Styles.
const (
	Plain Style = iota
	Bold
	Dim
	Reverse
	ReverseBold
	Red
	Yellow
	Green
	Magenta
)

// codes are the escape sequences (ECMA-48, SGR).
var codes = [...]string{Bold: "1", Dim: "2", Reverse: "7", ReverseBold: "7;1", Red: "31", Yellow: "33", Green: "32", Magenta: "35"}

// Span is text of one style: printable, without escapes of its own.
type Span struct {
	Text  string
	Style Style
}

// Line is a line of a screen.
type Line []Span

// Text is the line without styles.
func (l Line) Text() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.Text)
	}
	return b.String()
}

// Paint returns the line with escape sequences, without colors if the user wants none.
func (l Line) Paint(colors bool) string {
	var b strings.Builder
	for _, s := range l {
		if s.Style == Plain || s.Style >= Red && !colors {
			b.WriteString(s.Text)
			continue
		}
		b.WriteString("\x1b[" + codes[s.Style] + "m" + s.Text + "\x1b[m")
	}
	return b.String()
}

// cut shortens a line to a width.
func (l Line) cut(width int) Line {
	for i := range l {
		n := len([]rune(l[i].Text))
		if n > width {
			l[i].Text = fit(l[i].Text, width)
			return l[:i+1]
		}
		width -= n
	}
	return l
}
