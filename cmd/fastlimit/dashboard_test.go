package main

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dashboard is what tests read of one of Grafana's.
type dashboard struct {
	UID, Title    string
	Tags          []string
	SchemaVersion int
	Panels        []panel
	Templating    struct {
		List []struct {
			Name, Type, Definition string
			AllValue               string
		}
	}
}

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	Datasource               struct{ UID string }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct{ Expr, LegendFormat string }
	Panels                   []panel // of a collapsed row
}

// dashboards are those in deploy/grafana, by their files' names.
func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "deploy", "grafana", "*.json"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	all := map[string]dashboard{}
	for _, file := range files {
		var d dashboard
		if err := json.Unmarshal([]byte(readText(t, file)), &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(file)] = d
	}
	return all
}

// panels are all of a dashboard, rows included.
func (d dashboard) panels() (all []panel) {
	for _, p := range d.Panels {
		all = append(append(all, p), p.Panels...)
	}
	return all
}

// Each panel says what to look for, has a unit and its own place, and asks the source that is chosen.
func TestDashboardsAreWhole(t *testing.T) {
	t.Parallel()
	for file, d := range dashboards(t) {
		if d.UID+".json" != file || d.Title == "" || !slices.Contains(d.Tags, "fastlimit") || d.SchemaVersion < 36 {
			t.Errorf("%s: uid %q, title %q, tags %q, schema %d", file, d.UID, d.Title, d.Tags, d.SchemaVersion)
		}
		all := d.panels()
		if n := len(all); n < 12 || n > 40 {
			t.Errorf("%s: %d panels and rows", file, n)
		}
		for i, p := range all {
			g := p.GridPos
			if g.X < 0 || g.Y < 0 || g.W < 1 || g.H < 1 || g.X+g.W > 24 {
				t.Errorf("%s: %s does not fit: %+v", file, p.Title, g)
			}
			for _, o := range all[:i] {
				if q := o.GridPos; o.ID == p.ID || o.Title == p.Title || g.X < q.X+q.W && q.X < g.X+g.W && g.Y < q.Y+q.H && q.Y < g.Y+g.H {
					t.Errorf("%s: %s and %s overlap or have one id: %d %+v, %d %+v", file, o.Title, p.Title, o.ID, q, p.ID, g)
				}
			}
			if p.Type == "row" {
				continue
			}
			text, _, docs := strings.Cut(p.Description, "\n\n[Docs](https://github.com/fastlimit/fastlimit/blob/main/docs/")
			if len(text) < 60 || !docs || p.Title == "" || p.FieldConfig.Defaults.Unit == "" || p.Datasource.UID != "${ds}" || len(p.Targets) == 0 {
				t.Errorf("%s: %q: no title, description, link to docs, unit, data source or query", file, p.Title)
			}
			for _, q := range p.Targets {
				if q.LegendFormat == "" {
					t.Errorf("%s: %s: no legend for %s", file, p.Title, q.Expr)
				}
			}
		}
	}
}

var (
	exportedSample = regexp.MustCompile(`(?m)^(\w+)(?:\{(.*)\})? \S+$`)
	exportedLabel  = regexp.MustCompile(`(\w+)="`)
	exprSelector   = regexp.MustCompile(`\b(\w+)\{([^}]*)\}`)
	exprMatcher    = regexp.MustCompile(`(\w+) *(?:=~|!~|!=|=) *"`)
	exprGroup      = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left) *\(([^)]*)\)`)
	exprMetric     = regexp.MustCompile(`\b(?:fastlimit|ratelimit|process|go)_\w+|\bup\b`)
	legendLabel    = regexp.MustCompile(`\{\{ *(\w+) *\}\}`)
)

// exported are the labels of each metric that the program exports.
func exported(pages string) map[string][]string {
	all := map[string][]string{"up": {}}
	for _, m := range exportedSample.FindAllStringSubmatch(pages, -1) {
		all[m[1]] = append(all[m[1]], submatches(exportedLabel, m[2])...)
	}
	return all
}

// All metrics and labels in expressions are exported, and each metric is asked for what the
// variables select.
func TestDashboardsReferToMetrics(t *testing.T) {
	t.Parallel()
	withRedis, others := metricsPages(t)
	rls := startRLSPeer(t, "FASTLIMIT_CLUSTER_BIND=127.0.0.1:0", "FASTLIMIT_CLUSTER_SECRET_FILE="+writeFile(t, "secret", "0123456789abcdef\n"))
	rls.hit(t, "x", 1) // some begin with it
	metrics := exported(withRedis + others + page(t, "GET", "http://"+rls.metrics+"/metrics", ""))
	for file, d := range dashboards(t) {
		variables := []string{}
		for _, v := range d.Templating.List {
			if v.Type == "query" {
				expr := strings.TrimSuffix(strings.TrimPrefix(v.Definition, "label_values("), ")")
				i := strings.LastIndex(expr, ", ")
				checkExpr(t, metrics, variables, file+": $"+v.Name, expr[:i]+" by ("+expr[i+2:]+")", "{{"+v.Name+"}}")
				variables = append(variables, v.Name)
			}
		}
		for _, p := range d.panels() {
			for _, q := range p.Targets {
				checkExpr(t, metrics, variables, file+": "+p.Title, q.Expr, q.LegendFormat)
			}
		}
	}
}

func checkExpr(t *testing.T, metrics map[string][]string, variables []string, where, expr, legend string) {
	t.Helper()
	labels := []string{"job", "instance"}
	bare := expr
	for _, m := range exprSelector.FindAllStringSubmatch(expr, -1) {
		bare = strings.Replace(bare, m[0], "", 1)
		own, ok := metrics[m[1]]
		if !ok {
			t.Errorf("%s: %s is not exported", where, m[1])
			continue
		}
		own = append([]string{"job", "instance"}, own...)
		labels = append(labels, own...)
		for _, l := range submatches(exprMatcher, m[2]) {
			if !slices.Contains(own, l) {
				t.Errorf("%s: %s has no label %s", where, m[1], l)
			}
		}
		for _, v := range variables {
			if slices.Contains(own, v) && !strings.Contains(m[2], v+`=~"$`+v+`"`) {
				t.Errorf("%s: $%s does not select %s", where, v, m[0])
			}
		}
	}
	for _, name := range exprMetric.FindAllString(bare, -1) { // the first variable selects nothing
		if _, ok := metrics[name]; !ok || len(variables) > 0 {
			t.Errorf("%s: %s is asked without variables, or is not exported", where, name)
		}
		labels = append(labels, metrics[name]...)
	}
	used := submatches(legendLabel, legend)
	for _, group := range submatches(exprGroup, expr) {
		used = append(used, strings.FieldsFunc(group, func(r rune) bool { return r == ',' || r == ' ' })...)
	}
	for _, l := range used {
		if !slices.Contains(labels, l) {
			t.Errorf("%s: no metric of it has the label %s", where, l)
		}
	}
}
