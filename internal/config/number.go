package config

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit/internal/span"
)

// Whole numbers are stricter than YAML: no 1e3, 0x10, 1_000 or +1. YAML versions and
// parsers differ in what these are, and a limit should not depend on that.

// number is a whole number within bounds.
type number struct {
	least, most uint64
	example     string
	zero        string // what 0 means, where it is below least; "" if it is refused
	outside     string // the problem with a number out of range, if not just that
	why         string // follows the bounds in messages
}

func whole(b number) value {
	docs := fmt.Sprintf("%d to %d", b.least, b.most)
	s := schema{"type": "integer", "minimum": b.least, "maximum": b.most}
	if b.most == math.MaxUint64 {
		docs = fmt.Sprintf("%d and more", b.least)
		delete(s, "maximum") // JSON numbers are floats to most readers: 2^64-1 would be rounded
	}
	if b.zero != "" {
		docs, s = "0, or "+docs, schema{"anyOf": []schema{{"const": 0}, s}}
		b.why = ", or 0 for " + b.zero + b.why
	}
	return parsed(docs, orVariable(s), "a whole number such as "+b.example, b.parse)
}

func (b number) parse(s scalar) (v uint64, problem, fix string) {
	v, err := strconv.ParseUint(s.text, 10, 64)
	digits := strings.Trim(s.text, "0123456789") == ""
	switch {
	case digits && !s.isNumber:
		return 0, quote(s.text) + " is text", "write the number without quotes"
	case digits && err != nil:
		return 0, s.short() + " is too large", "want a number below 2^64"
	case err != nil:
		return 0, quote(s.text) + " is not a whole number", "write for example " + b.example
	case v == 0 && b.zero != "":
	case v == 0 && b.least > 0 && b.outside == "":
		return 0, "0 is too small", "want at least 1"
	case v < b.least || v > b.most:
		return 0, fmt.Sprintf("%d %s", v, cmp.Or(b.outside, "is out of range")), fmt.Sprintf("want %d to %d%s", b.least, b.most, b.why)
	}
	return v, "", ""
}

// fraction is a number from 0 to 1 in plain decimal notation. Percent are not: 50 is out
// of range rather than 0.5.
func fraction(example string) value {
	s := orVariable(schema{"type": "number", "minimum": 0, "maximum": 1})
	return parsed("0 to 1", s, "a number such as "+example, func(s scalar) (v float64, problem, fix string) {
		v, err := strconv.ParseFloat(s.text, 64)
		switch {
		case err != nil || !s.isNumber || strings.Trim(s.text, "-.0123456789") != "": // ParseFloat also takes 1e-3, 0x1p-2 and NaN
			return 0, quote(s.text) + " is not a decimal number", "write for example " + example + ", without quotes"
		case v < 0 || v > 1:
			return 0, s.short() + " is out of range", "want 0 to 1"
		}
		return v, "", ""
	})
}

// duration is a time within bounds; why follows them in the message. A unit is required
// except for 0: other products read 5 as seconds, milliseconds or minutes.
func duration(least, most time.Duration, example, why string) value {
	s := patternSchema(`^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h|d))+$`)
	if least == 0 {
		s = schema{"anyOf": []schema{s, {"const": 0}}}
	}
	bounds := shortTime(least) + " to " + shortTime(most)
	return parsed(bounds, s, "a time such as "+example, func(s scalar) (v time.Duration, problem, fix string) {
		v, err := span.Parse(s.text)
		switch {
		case err != nil:
			return 0, quote(s.text) + " is not a time", "write for example " + example
		case v < least || v > most:
			return 0, s.short() + " is out of range", "want " + bounds + why
		}
		return v, "", ""
	})
}

// shortTime is a time without the zero units at its end: 1h, not 1h0m0s.
func shortTime(t time.Duration) string {
	s := t.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// byteSize is a number of bytes within bounds; why follows them in the message.
func byteSize(least, most int64, example, fix, why string) value {
	bounds := compactSize(least) + " to " + compactSize(most)
	s := schema{"anyOf": []schema{
		patternSchema(`^[0-9]+ ?(B|[KMGT]i?B)?$`), {"type": "integer", "minimum": least, "maximum": most},
	}}
	return parsed(bounds, s, "a size such as "+example, func(s scalar) (int64, string, string) {
		v, ok := parseSize(s.text)
		switch {
		case !ok:
			return 0, quote(s.text) + " is not a size", "write for example " + fix
		case v < least || v > most:
			return 0, s.short() + " is out of range", "want " + bounds + why
		}
		return v, "", ""
	})
}

// parseSize reads bytes with a binary (KiB) or decimal (KB) unit. Unlike in some other
// products 64MB is not 64 MiB.
func parseSize(s string) (int64, bool) {
	digits := strings.TrimRight(s, "BKMGTikbmgt ")
	unit, ok := map[string]float64{
		"": 1, "B": 1,
		"KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
		"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	}[strings.TrimPrefix(s[len(digits):], " ")]
	n, err := strconv.ParseUint(digits, 10, 53) // so that the product is exact
	return int64(min(float64(n)*unit, math.MaxInt64/2)), ok && err == nil
}

// compactSize is a multiple of 1 KiB as a file writes it, so that a message can be copied
// from.
func compactSize(n int64) string { return strings.ReplaceAll(size(n), " ", "") }
