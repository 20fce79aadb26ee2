package inproc

import (
	"fmt"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bench/oracle"
	"github.com/fastlimit/fastlimit/bucket"
)

// Algorithms is fastlimit with each algorithm that a rule can have, and again with
// strict rules, which check every request exactly. It reads its own clock, as a service does
// and as most peers do.
func Algorithms() (all []Contender) {
	for a := range bucket.NumAlgorithms {
		all = append(all, algorithm(a, false), algorithm(a, true))
	}
	return all
}

func algorithm(a fastlimit.Algorithm, strict bool) Contender {
	c := Contender{
		Name:  "fastlimit, " + a.String(),
		Setup: fmt.Sprintf("defaults, algorithm %v%s; reads the clock itself", a, windowSetup(a)), OwnClock: true,
		New: func(r oracle.Rule) (Limiter, error) {
			rule := AlgorithmRule(a, r)
			rule.Strict = strict
			f, err := newFast(rule, nil)
			return ownClock{f}, err
		},
	}
	if strict {
		c.Name += ", strict"
		c.Setup += "; every request is checked exactly"
	}
	return c
}

// AlgorithmRule is the rule for an algorithm. The nearest that a window has to a rate
// and a burst is the burst in each period of B/r, as for peers that have windows.
func AlgorithmRule(a fastlimit.Algorithm, r oracle.Rule) fastlimit.RuleConfig {
	c := fastlimit.RuleConfig{Algorithm: a, Rate: r.Rate, Burst: r.Burst}
	if windowed(a) {
		c.Rate, c.Burst = fastlimit.Rate{N: r.Burst, Per: r.Window()}, 0
	}
	return c
}

// windowed reports whether an algorithm has periods instead of a burst.
func windowed(a fastlimit.Algorithm) bool {
	return a != fastlimit.LeakyBucket && a != fastlimit.TokenBucket
}

func windowSetup(a fastlimit.Algorithm) string {
	if windowed(a) {
		return ", B requests per window of B/r"
	}
	return ""
}
