// Package span reads lengths of time as people write them: as package time does, and in days.
package span

import (
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
