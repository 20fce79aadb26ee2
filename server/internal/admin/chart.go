package admin

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// chart shows the requests of the last hour, a bar per minute, denied ones on top of admitted ones.
type chart struct {
	Bars []bar
	Most float64 // requests per second at full height
}

// bar is a bar in a chart, in units of chartWidth by chartHeight.
type bar struct {
	X, Width                  float64
	AdmittedY, AdmittedHeight float64
	DeniedY, DeniedHeight     float64
	Title                     string
}

const (
	chartWidth, chartHeight = 600, 100
	chartMinutes            = 60
)

func chartOf(minutes []Minute) (c chart) {
	minutes = minutes[max(0, len(minutes)-chartMinutes):]
	rate := func(n uint64, m *Minute) float64 { return float64(n) / max(m.Seconds, 1) }
	for i := range minutes {
		c.Most = max(c.Most, rate(minutes[i].Admitted+minutes[i].Denied, &minutes[i]))
	}
	if c.Most == 0 {
		c.Most = 1
	}
	const width = float64(chartWidth) / chartMinutes
	for i := range minutes {
		m := &minutes[i]
		admitted, denied := rate(m.Admitted, m), rate(m.Denied, m)
		b := bar{X: width * float64(chartMinutes-len(minutes)+i), Width: width - 1}
		b.AdmittedHeight, b.DeniedHeight = admitted/c.Most*chartHeight, denied/c.Most*chartHeight
		b.AdmittedY = chartHeight - b.AdmittedHeight
		b.DeniedY = b.AdmittedY - b.DeniedHeight
		b.Title = fmt.Sprintf("%s: %s/s admitted, %s/s denied", m.From.UTC().Format(time.TimeOnly+"Z"), shortNumber(admitted), shortNumber(denied))
		c.Bars = append(c.Bars, b)
	}
	return c
}

// stageRow is a rule's decisions in a stage in the last hour.
type stageRow struct {
	Rule, Mode, Stage string
	Admitted, Denied  uint64
}

// stagesOf adds up minutes by rule, mode and stage.
func stagesOf(minutes []Minute) (rows []stageRow) {
	at := map[[3]string]int{}
	row := func(r *RuleMinute, stage string) *stageRow {
		id := [3]string{r.Rule, r.Mode, stage}
		i, ok := at[id]
		if !ok {
			i = len(rows)
			at[id] = i
			rows = append(rows, stageRow{Rule: r.Rule, Mode: r.Mode, Stage: stage})
		}
		return &rows[i]
	}
	for i := range minutes {
		for k := range minutes[i].Rules {
			r := &minutes[i].Rules[k]
			for stage, n := range r.Admitted {
				row(r, stage).Admitted += n
			}
			for stage, n := range r.Denied {
				row(r, stage).Denied += n
			}
		}
	}
	slices.SortFunc(rows, func(a, b stageRow) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Mode, b.Mode), cmp.Compare(b.Admitted+b.Denied, a.Admitted+a.Denied), cmp.Compare(a.Stage, b.Stage))
	})
	return rows
}
