package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	alertRules    = filepath.Join("..", "..", "deploy", "prometheus", "alerts.yml")
	alertName     = regexp.MustCompile(`(?m)^ +- alert: (\w+)$`)
	alertRunbook  = regexp.MustCompile(`(?m)^ +runbook_url: https://github\.com/fastlimit/fastlimit/blob/main/docs/operations\.md#(\w+)$`)
	alertSection  = regexp.MustCompile(`(?s)^(Fastlimit\w+)\n(.*)`)
	alertUnitTest = regexp.MustCompile(`alertname="(Fastlimit\w+)"`)
)

// submatches are the first groups of all matches.
func submatches(r *regexp.Regexp, text string) (all []string) {
	for _, m := range r.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// Each alert has a section of docs/operations.md, which says what it means, what to look at
// and what to do, and each such section has its alert. Each is tried by promtool.
func TestAlertsHaveRunbooks(t *testing.T) {
	t.Parallel()
	rules := readText(t, alertRules)
	alerts := submatches(alertName, rules)
	if len(alerts) < 10 {
		t.Fatalf("only %d alerts: %q", len(alerts), alerts)
	}
	anchors := submatches(alertRunbook, rules)
	var sections []string
	for text := range strings.SplitSeq(readText(t, filepath.Join("..", "..", "docs", "operations.md")), "\n### ") {
		m := alertSection.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		sections = append(sections, m[1])
		for _, part := range []string{"Means: ", "Look at: ", "Do: "} {
			if !strings.Contains(m[2], part) {
				t.Errorf("the section of %s has no %q", m[1], part)
			}
		}
	}
	if !slices.Equal(alerts, sections) {
		t.Errorf("alerts %q, sections %q", alerts, sections)
	}
	for i, name := range alerts {
		if i >= len(anchors) || anchors[i] != strings.ToLower(name) {
			t.Errorf("%s does not refer to its section", name)
		}
	}
	tried := submatches(alertUnitTest, readText(t, filepath.Join(filepath.Dir(alertRules), "alerts_test.yml")))
	if !slices.Equal(alerts, tried) {
		t.Errorf("alerts %q, of which promtool tries %q", alerts, tried)
	}
}

// All metrics that alerts refer to are registered: TestMetricsAreDocumented compares the pages
// with a scrape, and this the alerts with the pages.
func TestAlertsReferToMetrics(t *testing.T) {
	t.Parallel()
	page := readText(t, filepath.Join("..", "..", "docs", "operations.md"))
	for _, name := range documentedName.FindAllString(readText(t, alertRules), -1) {
		if !strings.Contains(page, "`"+strings.Replace(name, "_postgres_", "_redis_", 1)) {
			t.Errorf("%s is not documented", name)
		}
	}
}
