package metrics

import (
	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/prom"
)

// ofAudit are the results of rules' audits. Rules of a kind that is not audited show 0.
var ofAudit = []prom.Metric[Stats]{
	level("audit_clients", "Clients that are also counted exactly, 1 in 1024 by digest.",
		func(r *Rule) float64 { return float64(r.Audit.Clients) }),
	audited("audit_requests_total", "Requests of audited clients that asked the sketch, and their denials that were checked.",
		func(a *fastlimit.AuditStats) uint64 { return a.Requests }),
	audited("audit_false_denials_total", "Denials of audited clients that were within their limit. Above 0 is a bug in fastlimit.",
		func(a *fastlimit.AuditStats) uint64 { return a.FalseDenials }),
	audited("audit_false_suspects_total", "Requests of audited clients that were checked exactly because of collisions.",
		func(a *fastlimit.AuditStats) uint64 { return a.FalseSuspects }),
	audited("audit_excess_requests_total", "Requests of audited clients that were admitted above the bound that validate prints. Above 0 is a bug in fastlimit.",
		func(a *fastlimit.AuditStats) uint64 { return a.Excess }),
	audited("audit_estimated_units_total", "Sum of the sketch's estimates of audited clients, at their requests.",
		func(a *fastlimit.AuditStats) uint64 { return uint64(a.Estimated) }),
	audited("audit_true_units_total", "Sum of audited clients' true levels, at the same requests.",
		func(a *fastlimit.AuditStats) uint64 { return uint64(a.Level) }),
	level("audit_peak_ratio", "Highest level of any audited client so far, as a share of the bound.",
		func(r *Rule) float64 { return r.Audit.Peak }),
}

// audited is a counter with a series for each rule name, summed over its modes.
func audited(name, help string, read func(a *fastlimit.AuditStats) uint64) prom.Metric[Stats] {
	return prom.Counters(name, help, []string{"rule"}, func(s *Stats, add func(uint64, ...string)) {
		names, sums := byName(s, func(sum *uint64, r *Rule) { *sum += read(&r.Audit) })
		for _, name := range names {
			add(*sums[name], name)
		}
	})
}
