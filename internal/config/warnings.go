package config

import (
	"fmt"

	"github.com/fastlimit/fastlimit"
)

// A warning names the setting, what follows from it and what to write. It must not
// appear for a file that is right, or people stop reading them: the example has none
// (TestExampleFile).

// Warnings reports settings that are valid but probably a mistake, one line each,
// without a newline. p is the plan of c.Limiter().
func Warnings(c *Config, p *fastlimit.Plan) []string {
	warnings, _ := remarks(c, p)
	return warnings
}

// Notes reports what follows from settings that are hardly a mistake, as [Warnings] does. Nothing
// has to be done about it.
func Notes(c *Config, p *fastlimit.Plan) []string {
	_, notes := remarks(c, p)
	return notes
}

// remarks returns warnings and notes.
func remarks(c *Config, p *fastlimit.Plan) (all, notes []string) {
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, w := range c.fileWarnings {
		warn("%s", w)
	}
	adminWarnings(c, warn)
	for i := range c.Server.Listeners {
		listenerWarnings(&c.Server.Listeners[i], warn)
	}
	proxyWarnings(c, warn)
	listWarnings(c, warn)
	waitWarnings(c, warn)
	storeWarnings(c, warn)
	clusterWarnings(c, warn)
	kernelWarnings(c, warn)
	warnShownKeys(c, warn)
	nodes := c.Limiter().Nodes
	for i := range p.Rules {
		spec := &c.Policy.Rules[i]
		ofRule := func(format string, args ...any) { warn("rule %s: %s", spec.Limit.Name, fmt.Sprintf(format, args...)) }
		if _, made := spec.Origin(); made { // what else there is to say of it is said of that one
			trafficWarning(&p.Rules[i], ofRule)
			continue
		}
		keyWarnings(spec, ofRule)
		matchWarnings(spec, len(c.Policy.TrustedProxies) > 0, ofRule)
		namedWarnings(spec, len(c.Policy.TrustedProxies) > 0, ofRule)
		coverWarning(spec, ofRule)
		maxWaitWarning(spec, ofRule)
		ownHeaderWarnings(spec, ofRule)
		banWarnings(spec, ofRule)
		ruleWarnings(&p.Rules[i], nodes, ofRule)
		ruleNotes(&spec.Limit, &p.Rules[i], nodes, func(format string, args ...any) {
			notes = append(notes, fmt.Sprintf("rule %s: %s", spec.Limit.Name, fmt.Sprintf(format, args...)))
		})
	}
	return all, notes
}

// warnFunc adds a warning. Its arguments are those of fmt.Sprintf.
type warnFunc func(format string, args ...any)
