// Package span reads lengths of time as people write them: as package time does, and in days; and writes
// them short.
package span

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var days = regexp.MustCompile(`[0-9.]*d`)

// Parse is [time.ParseDuration] with d, a day of 24 hours, among the units: 7d, 1d12h.
func Parse(text string) (time.Duration, error) {
	v, err := time.ParseDuration(days.ReplaceAllStringFunc(text, func(d string) string {
		n, err := strconv.ParseFloat(strings.TrimSuffix(d, "d"), 64)
		if err != nil {
			return d // which is refused
		}
		return strconv.FormatFloat(24*n, 'f', -1, 64) + "h"
	}))
	if err != nil {
		return 0, &time.ParseError{Layout: "1d12h", Value: text, Message: ": want a time such as 1d12h or 30m"}
	}
	return v, nil
}

// Short is a time in seconds in its largest unit, or two: 45s, 12m, 3h20m, 5d.
func Short(seconds float64) string {
	d := time.Duration(min(seconds, 1e9) * float64(time.Second)).Round(time.Second)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}
