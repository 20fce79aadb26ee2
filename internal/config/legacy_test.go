package config

import (
	"strconv"
	"strings"
	"testing"
)

func legacyRule(settings string) string { return "rules: [{name: a, " + settings + "}]\n" }

// A definition becomes the rate and the burst of its rule, wherever in the rule the
// factor stands.
func TestLegacyDefinitions(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]string{
		"legacy: {max: 10, duration: 10s, min_interval: 0s}, factor: 1":  "1/s burst 10",
		"legacy: {max: 10, duration: 5s, min_interval: 1s}":              "2/s burst 10",
		"factor: 0.5, legacy: {max: 10, duration: 5s, min_interval: 1s}": "4/s burst 20",
		"legacy: {max: 4096, duration: 2s}":                              "2000/s burst 4096",
		"legacy: {min_interval: 1m}, factor: 2":                          "1/2m burst 1",
		"bucket: {size: 10, drip_rate: 1s, drip_size: 2}, factor: 0.5":   "4/s burst 20",
		"bucket: {size: 7}":                            "1/s burst 7",
		"bucket: {size: 7, drip_rate: 1ms}, factor: 3": "1/3ms burst 3",
	} {
		c, err := Parse("f.yaml", []byte(legacyRule(settings)), noEnv)
		if err != nil {
			t.Errorf("%s: %v", settings, err)
			continue
		}
		checkAccepted(t, c)
		rc := plan(t, c).Rules[0].Config
		if got := rc.Rate.String() + " burst " + strconv.FormatUint(rc.Burst, 10); got != want {
			t.Errorf("%s: %s, want %s", settings, got, want)
		}
	}
}

// A contradiction is one error, at its place, with the fix.
func TestLegacyMistakes(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]string{
		"legacy: {max: 0, duration: 10s}":                             "1:33: rules[0].legacy.max: 0 is too small; want at least 1",
		"legacy: {max: 1.5, duration: 10s}":                           `rules[0].legacy.max: "1.5" is not a whole number`,
		"legacy: {max: 5, duration: -10s}":                            "rules[0].legacy.duration: -10s is out of range; want 0s to 8784h",
		"legacy: {max: 5, duration: 10s, min_interval: -1s}":          "rules[0].legacy.min_interval: -1s is out of range",
		"legacy: {max: 5, duration: 10}":                              `rules[0].legacy.duration: "10" is not a time`,
		"legacy: {max: 5}":                                            "1:27: rules[0].legacy: max without duration limits nobody; add for example duration: 10s",
		"legacy: {duration: 5s}":                                      "rules[0].legacy: duration without max limits nobody; add for example max: 10",
		"legacy: {max: 5, duration: 0s}":                              "rules[0].legacy: duration 0s means no limit; remove the rule",
		"legacy: {min_interval: 0s}":                                  "rules[0].legacy: min_interval 0s alone means no limit; remove the rule",
		"legacy: {}":                                                  "rules[0].legacy: limits nobody; write for example {max: 10, duration: 10s}",
		"legacy: 5":                                                   "rules[0].legacy: found 5; want a mapping such as {max: 10, duration: 10s}",
		"legacy: {maximum: 5}":                                        "rules[0].legacy.maximum: unknown setting",
		"legacy: {max: 5, duration: 10s}, rate: 1/s":                  "1:58: rules[0].rate: legacy is set too; remove one of the two",
		"rate: 1/s, legacy: {max: 5, duration: 10s}":                  "rules[0].legacy: rate is set too; remove one of the two",
		"legacy: {max: 5, duration: 10s}, bucket: {size: 5}":          "rules[0].bucket: legacy is set too; remove one of the two",
		"legacy: {max: 5, duration: 10s}, burst: 5":                   "rules[0].burst: is set together with legacy, which already defines the burst; remove one of the two",
		"burst: 5, bucket: {size: 5}":                                 "rules[0].burst: is set together with bucket, which already defines the burst; remove one of the two",
		"bucket: {size: 0}":                                           "rules[0].bucket.size: 0 is too small; want at least 1",
		"bucket: {drip_rate: 1s}":                                     "rules[0].bucket.size: missing; write for example size: 10",
		"bucket: {size: 5, drip_rate: 0s}":                            "rules[0].bucket.drip_rate: 0s is out of range; want 1ms to 8784h",
		"bucket: {size: 5, drip_size: 0}":                             "rules[0].bucket.drip_size: 0 is too small",
		"bucket: {size: 5}, factor: 0":                                "rules[0].factor: 0 means no limit; remove the rule, or exempt clients with allow",
		"bucket: {size: 5}, factor: -1":                               "rules[0].factor: -1 is out of range; want a number above 0, at most 1000000",
		"bucket: {size: 5}, factor: 1e3":                              `rules[0].factor: "1e3" is not a decimal number`,
		"bucket: {size: 9007199254740992}, factor: 0.5":               "rules[0].factor: 0.5 makes size 9007199254740992 too large; raise it",
		"rate: 1/s, factor: 2":                                        "rules[0].factor: scales legacy or bucket, and the rule has neither; remove it, and write the rate itself",
		"bucket: {size: 5, drip_rate: 48h}":                           "rules[0].bucket: rate 1 per 48h0m0s is too slow; want at least 1 per day",
		"bucket: {size: 1000000, drip_rate: 10h, drip_size: 1000001}": "rules[0].bucket: rate 1000001/10h cannot be kept exactly; write rate: 1000000/10h and burst: 1000000 instead of bucket",
		"bucket: {size: 10, drip_rate: 7ms, drip_size: 700001}":       "rules[0].bucket: rate 700001/7ms cannot be kept exactly; write rate: 100000000/s and burst: 10 instead of bucket",
		"legacy: {max: 700001, duration: 7s, min_interval: 7s}":       "rules[0].legacy: rate 700001/7s cannot be kept exactly; write rate: 700000/7s and burst: 700001 instead of legacy",
		"bucket: {size: 5}, cost: 6":                                  "rules[0].cost: cost 6 is above burst 5",
		"key: ip":                                                     "1:9: rules[0].rate: missing; write for example rate: 100/s",
	} {
		_, err := Parse("f.yaml", []byte(legacyRule(settings)), noEnv)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("%s:\ngot  %v\nwant %s", settings, err, want)
		}
	}
}
