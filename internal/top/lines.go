package top

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fastlimit/fastlimit/internal/bytesize"
	"github.com/fastlimit/fastlimit/internal/span"
)

// Lines draws the screen: at most height lines, none longer than width columns.
func (v *View) Lines(width, height int, now time.Time) []Line {
	width, height = max(width, 1), max(height, 1)
	all := v.head(width, height, now)
	if v.help {
		all = append(all, helpLines...)
	} else {
		all = append(all, v.body(width, height-len(all)-1)...)
	}
	if all = all[:min(len(all), max(height-1, 1))]; height > 1 {
		for len(all) < height-1 {
			all = append(all, nil)
		}
		all = append(all, v.foot())
	}
	for i := range all {
		all[i] = slices.Clone(all[i]).cut(width)
	}
	return all
}

// Low windows have no room for everything above the clients.
const (
	lowest  = 6  // below: only the requests
	roomy   = 14 // from here on: rules
	perRule = 4  // one rule for so many lines
)

// head draws what is above the clients.
func (v *View) head(width, height int, now time.Time) []Line {
	requests := v.requests()
	if v.problem != "" {
		requests = Line{{v.complaint(now), Red}}
	}
	if height < lowest {
		return []Line{requests}
	}
	all := []Line{v.title(now), requests, v.levels()}
	if v.doc != nil {
		if warning := v.doc.Totals.warning(); warning != "" {
			all = append(all, Line{{warning, Red}})
		}
	}
	if height < roomy {
		return all
	}
	curve := v.history.line(width - len("denied || at most 999.9k/s"))
	return append(append(all, Line{{curve, Red}}), append(v.ruleLines(height/perRule), nil)...)
}

// complaint says that the node does not answer.
func (v *View) complaint(now time.Time) string {
	if v.doc == nil {
		return v.problem
	}
	return fmt.Sprintf("no answer for %s: %s", span.Short(now.Sub(v.at).Seconds()), v.problem)
}

func (v *View) title(now time.Time) Line {
	l := Line{{"fastlimit top ", Bold}, {cell(v.Admin), Plain}}
	if v.doc != nil && v.doc.Totals != nil {
		l = append(l, Span{", up " + span.Short(v.doc.Totals.Uptime), Plain})
	}
	l = append(l, Span{now.Format("  15:04:05"), Dim})
	if v.Rule != "" {
		l = append(l, Span{"  only " + cell(v.Rule), Yellow})
	}
	if v.Paused {
		l = append(l, Span{"  paused", Yellow})
	}
	return l
}

// requests draws the rates of decisions.
func (v *View) requests() Line {
	switch {
	case v.doc == nil:
		return Line{{"waiting for an answer", Dim}}
	case v.doc.Totals == nil:
		return Line{{"the node has an older version, which sends no totals", Dim}}
	}
	t := v.doc.Totals
	denied, style := "", Plain
	if t.Requests > 0 {
		denied = fmt.Sprintf(" (%s)", percent(t.Denied/t.Requests))
	}
	if t.Denied > 0 {
		style = Red
	}
	return Line{
		{bytesize.Number(t.Requests), Bold},
		{" requests/s: ", Plain},
		{bytesize.Number(t.Admitted), Green},
		{" admitted, ", Plain},
		{bytesize.Number(t.Denied), style},
		{" denied" + denied, Plain},
	}
}

// levels draws the node's levels.
func (v *View) levels() Line {
	if v.doc == nil || v.doc.Totals == nil {
		return nil
	}
	t := v.doc.Totals
	l := Line{{fmt.Sprintf("%s clients, ", bytesize.Whole(t.Clients)), Plain}}
	style := Plain
	if t.Bans > 0 {
		style = Magenta
	}
	l = append(l, Span{fmt.Sprintf("%d banned", t.Bans), style}, Span{fmt.Sprintf(", %d connections", t.Connections), Plain})
	if s := t.Store; s != nil {
		l = append(l, Span{fmt.Sprintf(", %s %s/s ", cell(s.Name), bytesize.Number(s.Operations)), Plain})
		style := Red // its breaker holds requests back
		if s.State == "closed" {
			style = Green
		}
		l = append(l, Span{stateOfStore(s.State), style})
	}
	return l
}

// stateOfStore explains the state of a breaker.
func stateOfStore(state string) string {
	switch state {
	case "closed":
		return "up"
	case "open":
		return "down"
	}
	return cell(state)
}

// ruleLines draws the rules that deny most, in the order of the configuration.
func (v *View) ruleLines(most int) []Line {
	if v.doc == nil || v.doc.Totals == nil || most < 1 {
		return nil
	}
	rules := v.doc.Totals.Rules
	shown := make([]int, len(rules))
	for i := range shown {
		shown[i] = i
	}
	slices.SortStableFunc(shown, func(a, b int) int { return cmp.Compare(rules[b].Denied, rules[a].Denied) })
	left := 0
	if len(shown) > most {
		left = len(shown) - most + 1
		shown = shown[:most-1]
	}
	slices.Sort(shown)
	all := make([]Line, 0, most)
	for _, i := range shown {
		all = append(all, rules[i].line())
	}
	if left > 0 {
		all = append(all, Line{{fmt.Sprintf("  and %d more rules, which deny less", left), Dim}})
	}
	return all
}

func (r *Rule) line() Line {
	denied := Plain
	if r.Denied > 0 {
		denied = Red
	}
	l := Line{{"  " + fit(cell(r.Rule), 16), Plain}, {right(bytesize.Number(r.Admitted), 8) + "/s admitted ", Plain}, {right(bytesize.Number(r.Denied), 8), denied}}
	verb := "/s denied"
	if r.Mode == "shadow" {
		verb = "/s it would deny"
	}
	l = append(l, Span{verb, Plain})
	if r.Bans > 0 {
		l = append(l, Span{fmt.Sprintf(", %d banned", r.Bans), Magenta})
	}
	if r.LiveFor > 0 {
		l = append(l, Span{", changed for another " + span.Short(r.LiveFor), Yellow})
	}
	return l
}

// body draws the table of clients, with the mark in sight.
func (v *View) body(width, height int) []Line {
	if height < 1 || v.doc == nil {
		return nil
	}
	clients := v.clients()
	v.page = max(height-1, 0)
	at := v.place(clients)
	if at >= 0 && v.page > 0 {
		v.top = min(max(v.top, at-v.page+1), at)
	}
	v.top = max(min(v.top, len(clients)-v.page), 0)
	shown := clients[v.top:min(v.top+v.page, len(clients))]
	if at >= 0 {
		at -= v.top
	}
	all := table(slices.Clone(shown), width, at, v.order())
	if len(clients) == 0 && v.page > 0 {
		all = append(all, Line{{" nobody in the last few seconds", Dim}})
	}
	return all
}

func (v *View) foot() Line {
	if v.help {
		return Line{{"any key: back", Reverse}}
	}
	return Line{
		{"d", Bold},
		{"enied ", Plain},
		{"r", Bold},
		{"ate ", Plain},
		{"s", Bold},
		{"hare ", Plain},
		{"k", Bold},
		{"ey  ", Plain},
		{"f", Bold},
		{"ilter ", Plain},
		{"p", Bold},
		{"ause ", Plain},
		{"h", Bold},
		{"elp ", Plain},
		{"q", Bold},
		{"uit", Plain},
	}
}

var helpLines = []Line{
	{{"d r s k", Bold}, {"   sort by denied/s, rate, share of the limit, key", Plain}},
	{{"f", Bold}, {"         show the clients of the next rule, and after the last one of all rules", Plain}},
	{{"p", Bold}, {" space   pause the screen; again: resume", Plain}},
	{{"up down", Bold}, {"   select a client, and the selection follows it; page up, page down, home, end; esc: none", Plain}},
	{{"q", Bold}, {" ctrl-c  quit", Plain}},
	nil,
	{{"RATE/S ±", Bold}, {"  units asked for over the last 5 to 10 s on all nodes, including denied ones", Plain}},
	{{"DENIED/S", Bold}, {"  how many of them were denied, at least", Plain}},
	{{"LIMIT/S", Bold}, {"   what the client may sustain; *: it has an override", Plain}},
	{{"SHARE", Bold}, {"     rate / limit; |||||: the limit, each further |: three times as much", Plain}},
	{{"Numbers above the table are for this node, over the last 2 to 3 s.", Plain}},
}
