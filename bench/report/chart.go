package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
)

// chart is a plot of one or more series over two axes.
type chart struct {
	Title, Note string
	X, Y        axis
	Series      []series
	Scatter     bool // points only
}

// series is what one limiter adds to a chart.
type series struct {
	Name   string
	points [][2]float64 // x and y, by x
	color  int          // index, see [colors]
}

// The size of the drawing and its margins, as in page.html. The unit is a pixel
// where the chart is 360 wide: a phone shows it a little smaller, a desktop a
// little larger.
const (
	chartWidth, chartHeight = 360.0, 260.0
	left, right             = 60.0, 24.0
	top, bottom             = 10.0, 46.0
	palette                 = 12 // colours; see page.html
)

// SVG draws the chart. Colours come from the page's style.
func (c *chart) SVG() (template.HTML, error) {
	c.fit()
	var b strings.Builder
	err := pageTemplate.ExecuteTemplate(&b, "chart", c)
	return template.HTML(b.String()), err // made by a template that escapes
}

// fit gives both axes their ends, where the chart does not know them beforehand.
func (c *chart) fit() {
	for _, a := range []struct {
		axis *axis
		of   int
	}{{&c.X, 0}, {&c.Y, 1}} {
		if a.axis.ticks != nil {
			continue
		}
		var values []float64
		for _, s := range c.Series {
			for _, p := range s.points {
				values = append(values, p[a.of])
			}
		}
		a.axis.fit(values)
	}
}

// mark is where a tick or a point is drawn, and what it says.
type mark struct {
	X, Y float64
	Text string
}

// at is the mark of a position on both axes, from 0 to 1. The y axis of a drawing
// points down.
func at(x, y float64, text string) mark {
	return mark{left + x*(chartWidth-left-right), chartHeight - bottom - y*(chartHeight-top-bottom), text}
}

// Columns are the ticks of the x axis.
func (c *chart) Columns() (all []mark) {
	for _, t := range c.X.ticks {
		all = append(all, at(c.X.share(t.at), 0, t.text))
	}
	return all
}

// Rows are the ticks of the y axis.
func (c *chart) Rows() (all []mark) {
	for _, t := range c.Y.ticks {
		all = append(all, at(0, c.Y.share(t.at), t.text))
	}
	return all
}

// Points are those of a series that its axes can show.
func (c *chart) Points(s series) (all []mark) {
	for _, p := range s.points {
		if c.X.shows(p[0]) && c.Y.shows(p[1]) {
			all = append(all, at(c.X.position(p[0]), c.Y.position(p[1]), fmt.Sprintf("%s: %s, %s", s.Name, short(p[0]), short(p[1]))))
		}
	}
	return all
}

// Class is the colour of the series.
func (s series) Class() string { return fmt.Sprintf("c%d", s.color%palette) }

// Marker tells four series apart by shape, for those who cannot by colour.
func (s series) Marker() int { return s.color % 4 }

// colors gives each limiter one colour in all charts.
type colors struct{ names []string }

func (c *colors) of(name string) int {
	if i := slices.Index(c.names, name); i >= 0 {
		return i
	}
	c.names = append(c.names, name)
	return len(c.names) - 1
}

// nines is the axis of percentiles, on which 90, 99 and 99.9 % are equally far
// apart.
func nines() axis {
	a := axis{Label: "percentile", lo: 0, hi: 4}
	for _, p := range []struct {
		at   float64
		text string
	}{{0, ""}, {50, "p50"}, {90, "p90"}, {99, "p99"}, {99.9, "p99.9"}, {99.99, "p99.99"}} {
		a.ticks = append(a.ticks, tick{nine(p.at), p.text})
	}
	return a
}

// nine is the number of nines: 1 for the 90th percentile, 2 for the 99th.
func nine(percentile float64) float64 { return -math.Log10(1 - percentile/100) }
