package top

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/fastlimit/fastlimit/internal/bytesize"
	"github.com/fastlimit/fastlimit/internal/span"
)

// column is a column of the table of clients.
type column struct {
	title string
	order string // the order that sorts by it; "": none
	left  bool   // aligned
	least int    // width: no narrower
	most  int    // no wider; 0: any
	gives int    // higher ones are left out first; 0: never
	text  func(c *Client) string
	style func(c *Client) Style // nil: the row's
}

const (
	barWidth = 10

	// Columns with at least this gives go before the client has less than ease, the width of an IPv6 prefix.
	extra = 5
	ease  = 24
)

// columns from left to right. A narrow window drops the client's identity and activity last.
var columns = []column{
	{title: "RULE", left: true, least: 4, most: 16, gives: 3, text: func(c *Client) string { return cell(c.Rule) }},
	{title: "CLIENT", order: byKey, left: true, least: 12, most: 46, text: (*Client).name},
	{title: "RATE/S", order: ByRate, least: 7, text: func(c *Client) string { return bytesize.Number(c.Rate) }},
	{title: "±", least: 5, gives: 6, text: func(c *Client) string { return bytesize.Number(c.Error) }},
	{title: "DENIED/S", order: byDenied, least: 8, gives: 1, text: func(c *Client) string { return bytesize.Number(c.Denied) }},
	{title: "LIMIT/S", least: 7, gives: 5, text: limitOf},
	{title: "SHARE", order: byShare, least: 7, gives: 2, text: shareOf, style: styleOfShare},
	{title: "", left: true, least: barWidth, gives: 7, text: barOf, style: styleOfShare},
	{title: "STATE", left: true, least: 7, most: 18, gives: 4, text: stateOf},
	{title: "NODES", left: true, least: 5, most: 30, gives: 8, text: func(c *Client) string { return cell(strings.Join(c.Nodes, ",")) }},
}

func limitOf(c *Client) string {
	text := "none"
	if c.Limit != nil {
		text = bytesize.Number(*c.Limit)
	} else if c.Mode == "" { // the node is older, or has lost the rule
		text = "?"
	}
	if c.Override {
		text += "*"
	}
	return text
}

func shareOf(c *Client) string {
	if c.Share == nil {
		return "-"
	}
	return percent(*c.Share)
}

func barOf(c *Client) string {
	if c.Share == nil {
		return ""
	}
	return bar(*c.Share, barWidth)
}

// nearly is the share of a limit from which a client may soon be denied.
const nearly = 0.8

func styleOfShare(c *Client) Style {
	switch {
	case c.Share == nil:
		return Plain
	case *c.Share > 1:
		return Red
	case *c.Share >= nearly:
		return Yellow
	}
	return Green
}

// stateOf is a client's current state.
func stateOf(c *Client) string {
	state := ""
	switch {
	case c.Banned > 0 && c.BannedBy == "operator":
		return "banned " + span.Short(c.Banned) + " op"
	case c.Banned > 0:
		state = "banned " + span.Short(c.Banned)
	case c.Denied > 0 && c.Rate > 0:
		state = fmt.Sprintf("denied %.0f%%", 100*min(c.Denied/c.Rate, 1))
	case c.Share != nil && *c.Share > 1:
		state = "over"
	}
	if c.Mode == "shadow" {
		return strings.TrimSpace("shadow " + state)
	}
	return state
}

// table lays out clients in columns that fit a width, titles first. marked is the row with the mark, or -1.
func table(clients []Client, width, marked int, order string) []Line {
	cols, texts := layOut(clients, width-1)
	head := Line{{" ", Reverse}}
	rows := make([]Line, len(clients))
	for j := range rows {
		rows[j] = Line{{" ", rowStyle(&clients[j], j == marked)}}
		if j == marked {
			rows[j][0].Text = ">"
		}
	}
	for i, c := range cols {
		title, style := c.title, Reverse
		if c.order != "" && c.order == order {
			title, style = title+"▼", ReverseBold
		}
		head = append(head, Span{c.align(title, i, len(cols)), style})
		for j := range rows {
			style := rowStyle(&clients[j], j == marked)
			if c.style != nil && style == Plain {
				style = c.style(&clients[j])
			}
			rows[j] = append(rows[j], Span{c.align(texts[i][j], i, len(cols)), style})
		}
	}
	return append([]Line{head}, rows...)
}

func rowStyle(c *Client, marked bool) Style {
	switch {
	case marked:
		return Reverse
	case c.Banned > 0:
		return Magenta
	}
	return Plain
}

// align fits a text to the column, which is the i-th of n. least is its final width by now.
func (c *column) align(s string, i, n int) string {
	if c.left {
		s = fit(s, c.least)
	} else {
		s = right(s, c.least)
	}
	if i < n-1 {
		s += " "
	}
	return s
}

// layOut chooses the columns, with their final width in least, and their texts.
func layOut(clients []Client, width int) (cols []column, texts [][]string) {
	for i := range columns {
		c := columns[i]
		of := make([]string, len(clients))
		widest := utf8.RuneCountInString(c.title)
		for j := range clients {
			of[j] = c.text(&clients[j])
			widest = max(widest, utf8.RuneCountInString(of[j]))
		}
		if c.order != "" {
			widest = max(widest, len(c.title)+1) // the arrow
		}
		if c.most > 0 {
			widest = min(widest, c.most)
		}
		// If there is no room the client is cut, down to its least.
		if c.gives > 0 || !c.left {
			c.least = max(c.least, widest)
		} else {
			c.most = max(c.least, widest)
		}
		cols, texts = append(cols, c), append(texts, of)
	}
	for len(cols) > 1 {
		i := givesMost(cols)
		if i < 0 || needs(cols) <= width && (cols[i].gives < extra || wants(cols) <= width) {
			break
		}
		cols, texts = append(cols[:i:i], cols[i+1:]...), append(texts[:i:i], texts[i+1:]...)
	}
	spare := width - needs(cols)
	for i := range cols {
		if c := &cols[i]; c.gives == 0 && c.left {
			c.least = max(1, min(c.most, c.least+spare))
		}
	}
	return cols, texts
}

// wants is needs, with room for the client at ease.
func wants(cols []column) int {
	n := needs(cols)
	for i := range cols {
		if c := &cols[i]; c.gives == 0 && c.left {
			n += max(0, min(c.most, ease)-c.least)
		}
	}
	return n
}

// needs is the least width of the columns, with the gaps between them.
func needs(cols []column) int {
	n := len(cols) - 1
	for i := range cols {
		n += cols[i].least
	}
	return n
}

// givesMost returns the column to leave out next, or -1 if none can be.
func givesMost(cols []column) int {
	most, at := 0, -1
	for i := range cols {
		if cols[i].gives > most {
			most, at = cols[i].gives, i
		}
	}
	return at
}
