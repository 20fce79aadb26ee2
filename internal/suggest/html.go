package suggest

import (
	_ "embed" // page.html
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"share": share, "spaced": spaced, "join": func(parts []string) string { return strings.Join(parts, " ") },
}).Parse(pageText))

// WriteHTML writes the report as a self-contained page: the curves, the figures and the rules, in the colours
// that the reader's system prefers.
func (r *Report) WriteHTML(w io.Writer) error { return page.Execute(w, r) }

// Size of a chart and its margins, in pixels where it is not scaled.
const (
	chartWidth, chartHeight = 720.0, 340.0
	left, right             = 60.0, 20.0
	top, bottom             = 12.0, 50.0
)

// chart plots the burst that clients need against the rate, both logarithmic.
type chart struct {
	rows    []Row
	chosen  int
	decades int // of the y axis, which begins at 1
}

// point is a point in a chart and its text.
type point struct {
	X, Y float64
	Text string
}

// curve is one share of the clients.
type curve struct {
	Name   string
	Class  string // its colour and marker, see page.html
	Points []point
}

// Name returns the key for people.
func (k *Key) Name() string { return k.name }

// Suggested reports whether a row is the suggested one.
func (k *Key) Suggested(i int) bool { return i == k.chosen }

// Summary describes the attackers in a sentence.
func (k *Key) Summary() string { return k.attackersShare() }

// AttackRule says what makes them attackers.
func (k *Key) AttackRule() string { return k.attackRule() }

// Why is the reason for the burst of the suggested row, and Sheds what it denies.
func (k *Key) Why(spare string) string { return k.whyBurst(&k.Rows[k.chosen], spare) }

// Sheds says what the suggested limit would have denied.
func (k *Key) Sheds() string { return k.shed(&k.Rows[k.chosen]) }

// Chart is the chart of a key.
func (k *Key) Chart() *chart { //nolint:revive // only the template of the page calls it
	most := uint64(1)
	for i := range k.Rows {
		most = max(most, k.Rows[i].Max, k.Rows[i].Burst)
	}
	return &chart{rows: k.Rows, chosen: k.chosen, decades: max(1, int(math.Ceil(math.Log10(float64(most)))))}
}

// at places a burst at the rate of a row. Rows are equally far apart: all but two are steps of two or two and
// a half.
func (c *chart) at(row int, burst uint64, text string) point {
	x := 0.5
	if len(c.rows) > 1 {
		x = float64(row) / float64(len(c.rows)-1)
	}
	y := math.Log10(float64(max(burst, 1))) / float64(c.decades)
	return point{left + x*(chartWidth-left-right), chartHeight - bottom - y*(chartHeight-top-bottom), text}
}

// Curves are the shares of the clients, from half of them to all.
func (c *chart) Curves() []curve {
	all := []curve{{Name: "50 %"}, {Name: "90 %"}, {Name: "99 %"}, {Name: "99.9 %"}, {Name: "all"}}
	for i := range c.rows {
		r := &c.rows[i]
		for s, need := range []uint64{r.P50, r.P90, r.P99, r.P999, r.Max} {
			all[s].Class = fmt.Sprintf("s%d", s)
			all[s].Points = append(all[s].Points, c.at(i, need, fmt.Sprintf("%s: %s of the clients need %d at most", r.Rate, all[s].Name, need)))
		}
	}
	return all
}

// Line returns the points of a curve for SVG.
func (c curve) Line() string {
	var b strings.Builder
	for _, p := range c.Points {
		fmt.Fprintf(&b, "%.1f,%.1f ", p.X, p.Y)
	}
	return strings.TrimSpace(b.String())
}

// Suggested is the point of the suggested limit.
func (c *chart) Suggested() point {
	r := &c.rows[c.chosen]
	return c.at(c.chosen, r.Burst, fmt.Sprintf("suggested: %s, burst %d", r.Rate, r.Burst))
}

// Columns returns the rates, as many as fit.
func (c *chart) Columns() (all []point) {
	const room = 16
	every := (len(c.rows) + room - 1) / room
	for i := 0; i < len(c.rows); i += every {
		all = append(all, c.at(i, 1, c.rows[i].Rate))
	}
	return all
}

// Lines returns the powers of ten.
func (c *chart) Lines() (all []point) {
	for d, n := 0, uint64(1); d <= c.decades; d, n = d+1, n*10 {
		all = append(all, c.at(0, n, fmt.Sprint(n)))
	}
	return all
}
