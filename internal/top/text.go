package top

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fastlimit/fastlimit/internal/bytesize"
	"github.com/fastlimit/fastlimit/internal/safetext"
)

// maxText is how many bytes of a text are used: header values may be kilobytes long.
const maxText = 200

// cell makes a node's text safe: printable ASCII and ellipses, one column each. Other characters are quoted
// with escapes, since their width is unknown.
func cell(s string) string {
	s = safetext.Quote(s, maxText)
	if strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf && r != '…' }) {
		return strconv.QuoteToASCII(s)
	}
	return s
}

// word is cell for one part of several: quoted if it could be taken for more than one.
func word(s string) string {
	s = safetext.Clip(s, maxText)
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return (r <= ' ' || r > '~' || r == '"') && r != '…' }) {
		return strconv.QuoteToASCII(s)
	}
	return s
}

// fit cuts or pads a cell to a width.
func fit(s string, width int) string {
	n := utf8.RuneCountInString(s)
	switch {
	case n <= width:
		return s + strings.Repeat(" ", width-n)
	case width < 1:
		return ""
	}
	return string([]rune(s)[:width-1]) + "…"
}

// right is fit with the padding in front.
func right(s string, width int) string {
	if n := utf8.RuneCountInString(s); n < width {
		return strings.Repeat(" ", width-n) + s
	}
	return fit(s, width)
}

// percent is a share of 1, up to 7 columns wide.
func percent(share float64) string {
	switch {
	case share < 0.0995:
		return fmt.Sprintf("%.1f%%", 100*share)
	case share < 99.995:
		return fmt.Sprintf("%.0f%%", 100*share)
	}
	return bytesize.Number(share) + "x"
}

// bar draws a share of 1, which fills the first half. Each place of the other half means three times as much,
// to show who is far above the limit.
func bar(share float64, width int) string {
	half := width / 2
	full := int(min(share, 1)*float64(half) + 0.5)
	for most := 1.0; share > most && full < width; most *= 3 {
		full++
	}
	return strings.Repeat("|", full) + strings.Repeat(" ", width-full)
}
