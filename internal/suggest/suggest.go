package suggest

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/replay"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/policy"
)

// Config says what to suggest. The zero value has no keys and is rejected.
type Config struct {
	// Keys are the ways to distinguish clients, each with the requests it is about. Only the prefix lengths
	// of their limits count. At least one.
	Keys []policy.RuleSpec

	// Spare is the share of the clients that a suggested limit never denies, without
	// those that look like attacks. Required.
	Spare Percent

	// Suspects are networks that are taken for attacks, where a key distinguishes networks of their size.
	// Optional: see [Report.Extend].
	Suspects []string

	// Memory bounds the data on clients, in bytes; if they need more, a sample of them is examined. 0 means 1
	// GiB. Sorting takes its own memory, see ReadConfig.
	Memory int64

	replay.ReadConfig
}

const defaultMemory = 1 << 30

// Run reads logs like [replay.Run] and suggests limits. It fails like that, if the share to spare is out of
// range, and if not even a sample of the clients fits the memory.
func Run(ctx context.Context, logs []replay.Log, c Config) (*Report, error) {
	if c.Spare < minSpared || c.Spare > hundred {
		return nil, fmt.Errorf("the share of clients to spare is %v; want 50%% to 100%%", c.Spare)
	}
	col := &collector{budget: cmp.Or(c.Memory, defaultMemory)}
	specs := slices.Clone(c.Keys)
	names := ruleNames(specs)
	for i := range specs {
		l := &specs[i].Limit
		// The engine only says which rules apply: no limit is asked.
		l.Name, l.Rate, l.Burst, l.Mode = names[i], fastlimit.Rate{N: 1, Per: rates()[0].rate.Per}, 1, fastlimit.Shadow
		col.tables = append(col.tables, &table{spec: specs[i], clients: map[string]*arrivals{}})
	}
	settings := policy.Settings{Rules: specs}
	lim, err := fastlimit.New(fastlimit.Config{Rules: settings.Limits(), Memory: limit.LeastMemory(len(specs), 0)})
	if err != nil {
		return nil, err
	}
	for i, r := range lim.Rules() {
		col.tables[i].spec.Limit = r.Config() // with defaults filled in
	}
	if col.engine, err = policy.New(lim, settings); err != nil {
		return nil, err
	}
	asked := append(slices.Clone(specs), policy.RuleSpec{Key: []policy.KeyPart{{Kind: policy.KeyPath}}}) // for peak
	reading, err := replay.Read(ctx, logs, col.engine, asked, c.ReadConfig, col.request)
	if err != nil {
		return nil, err
	}
	report := &Report{
		Requests: reading.Requests, Skipped: reading.Skipped, Late: reading.Late,
		First: reading.First, Last: reading.Last, Spare: c.Spare.String(),
		WholeSeconds: col.started && !col.fractions, Busiest: col.peak.busiest(), Keys: []Key{},
		SkippedLines: reading.SkippedLines, Warnings: reading.Warnings,
	}
	for _, t := range col.tables {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		report.Keys = append(report.Keys, t.analyze(col.last-col.start, c.Spare, c.Suspects))
	}
	report.Config = report.config()
	return report, nil
}
