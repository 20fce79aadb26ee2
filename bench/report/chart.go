package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"
)

// chart is a plot of one or more series over two axes.
type chart struct {
	Title, Note string
	x, y        axis
	series      []series
	scatter     bool // points only
}

type series struct {
	name   string
	points [][2]float64
	color  int
}

// The drawing in units that are pixels where the chart is 360 wide: a phone
// shows it a little smaller, a desktop a little larger.
const (
	chartWidth, chartHeight = 360.0, 260.0
	left, right             = 60.0, 24.0
	top, bottom             = 10.0, 46.0
	palette                 = 12 // colours; see page.html
)

// SVG draws the chart. Colours come from the page's style.
func (c *chart) SVG() template.HTML {
	c.fit()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, chartWidth, chartHeight, html.EscapeString(c.Title))
	c.grid(&b)
	for i := range c.series {
		c.draw(&b, &c.series[i])
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // G203: made of numbers and escaped text
}

func (c *chart) fit() {
	for _, a := range []struct {
		axis *axis
		of   int
	}{{&c.x, 0}, {&c.y, 1}} {
		if a.axis.ticks != nil {
			continue
		}
		var values []float64
		for _, s := range c.series {
			for _, p := range s.points {
				values = append(values, p[a.of])
			}
		}
		a.axis.fit(values)
	}
}

func (c *chart) px(v float64) float64 { return left + c.x.position(v)*(chartWidth-left-right) }
func (c *chart) py(v float64) float64 {
	return chartHeight - bottom - c.y.position(v)*(chartHeight-top-bottom)
}

func (c *chart) grid(b *strings.Builder) {
	for _, t := range c.x.ticks {
		x := left + (t.at-c.x.lo)/(c.x.hi-c.x.lo)*(chartWidth-left-right)
		fmt.Fprintf(b, `<path class="grid" d="M%.1f %gV%g"/><text x="%.1f" y="%g" text-anchor="middle">%s</text>`,
			x, top, chartHeight-bottom, x, chartHeight-bottom+17, html.EscapeString(t.text))
	}
	for _, t := range c.y.ticks {
		y := chartHeight - bottom - (t.at-c.y.lo)/(c.y.hi-c.y.lo)*(chartHeight-top-bottom)
		fmt.Fprintf(b, `<path class="grid" d="M%g %.1fH%g"/><text x="%g" y="%.1f" text-anchor="end">%s</text>`,
			left, y, chartWidth-right, left-6, y+4, html.EscapeString(t.text))
	}
	fmt.Fprintf(b, `<text class="label" x="%g" y="%g" text-anchor="middle">%s</text>`,
		(left+chartWidth-right)/2, chartHeight-10, html.EscapeString(c.x.label))
	fmt.Fprintf(b, `<text class="label" transform="translate(13 %g) rotate(-90)" text-anchor="middle">%s</text>`,
		(top+chartHeight-bottom)/2, html.EscapeString(c.y.label))
}

func (c *chart) draw(b *strings.Builder, s *series) {
	var line []string
	for _, p := range s.points {
		if !c.x.shows(p[0]) || !c.y.shows(p[1]) {
			continue
		}
		x, y := c.px(p[0]), c.py(p[1])
		line = append(line, fmt.Sprintf("%.1f,%.1f", x, y))
		fmt.Fprintf(b, `<g class="point c%d"><title>%s: %s, %s</title>%s</g>`, s.color%palette,
			html.EscapeString(s.name), short(p[0]), short(p[1]), marker(s.color, x, y))
	}
	if !c.scatter && len(line) > 1 {
		fmt.Fprintf(b, `<polyline class="line c%d" points="%s"/>`, s.color%palette, strings.Join(line, " "))
	}
}

// marker is a shape of its own for each of four series, for those who do not
// tell the colours apart.
func marker(i int, x, y float64) string {
	switch i % 4 {
	case 1:
		return fmt.Sprintf(`<rect x="%.1f" y="%.1f" width="7" height="7"/>`, x-3.5, y-3.5)
	case 2:
		return fmt.Sprintf(`<path d="M%.1f %.1fl4.5 8h-9z"/>`, x, y-5)
	case 3:
		return fmt.Sprintf(`<path d="M%.1f %.1fl4.5 4.5l-4.5 4.5l-4.5-4.5z"/>`, x, y-4.5)
	}
	return fmt.Sprintf(`<circle cx="%.1f" cy="%.1f" r="4"/>`, x, y)
}

// Legend names the series with their markers.
func (c *chart) Legend() template.HTML {
	var b strings.Builder
	for _, s := range c.series {
		fmt.Fprintf(&b, `<span><svg class="key" viewBox="0 0 12 12" aria-hidden="true"><g class="point c%d">%s</g></svg>%s</span>`,
			s.color%palette, marker(s.color, 6, 6), html.EscapeString(s.name))
	}
	return template.HTML(b.String()) //nolint:gosec // G203: made of numbers and escaped text
}

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
	a := axis{label: "percentile", lo: 0, hi: 4}
	for _, p := range []struct {
		at   float64
		text string
	}{{0, ""}, {50, "p50"}, {90, "p90"}, {99, "p99"}, {99.9, "p99.9"}, {99.99, "p99.99"}} {
		a.ticks = append(a.ticks, tick{nine(p.at), p.text})
	}
	return a
}

func nine(percentile float64) float64 { return -math.Log10(1 - percentile/100) }
