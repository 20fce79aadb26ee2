package httpbench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/bench/load"
	"github.com/fastlimit/fastlimit/bench/oracle"
	"github.com/fastlimit/fastlimit/bench/report"
)

const (
	// For every four clients that flood, one more sends at half its limit. A
	// limiter must not deny these.
	bystanders    = 4
	bystanderLoad = 0.5
)

// flood measures latencies, shed shares and the mistakes of each server, under
// clients that exceed their limit among some that do not.
func (o Options) flood(ctx context.Context, all []*running, _ cores) (results []report.Result, err error) {
	for _, r := range all {
		before, err := r.child.CPU()
		if err != nil {
			return results, err
		}
		out, verdict, err := o.attack(ctx, r.target)
		if out != nil && out.Total() > 0 {
			res := OpenResult(r.result("flood"), out)
			if after, err := r.child.CPU(); err == nil {
				res.CPUMicros = new((after - before).Seconds() * 1e6 / float64(out.Total()))
			}
			res.DeniedExactly = new(float64(verdict.DeniedExactly) / float64(max(1, verdict.Requests)))
			res.FalseDenials, res.ConformingDenied, res.Excess = &verdict.FalseDenials, &verdict.ConformingDenied, &verdict.Excess
			results = append(results, res)
		}
		if err != nil {
			return results, fmt.Errorf("%s: %w", r.server.Name, err)
		}
	}
	return results, nil
}

// attack sends the flood and judges every answer. The server decided at some time
// between request and answer; the oracle assumes the time that suits it best.
func (o Options) attack(ctx context.Context, target load.Target) (*load.Outcome, oracle.Verdict, error) {
	innocent := (o.Clients + bystanders - 1) / bystanders
	sources := load.Loopback(o.Clients + innocent)
	loads := []load.OpenConfig{
		{Rate: o.Rate, Conns: o.Clients, Sources: sources[:o.Clients]},
	}
	if rate := bystanderLoad * o.Rule.Rate.PerSecond() * float64(innocent); rate*o.Duration.Seconds() >= 1 {
		loads = append(loads, load.OpenConfig{Rate: rate, Conns: innocent, Sources: sources[o.Clients:]})
	}
	outcomes, verdicts, errs := make([]*load.Outcome, len(loads)), make([]oracle.Verdict, len(loads)), make([]error, len(loads))
	var wg sync.WaitGroup
	for i, c := range loads {
		c.Target, c.Duration = target, o.Duration
		judges, err := newJudges(o.Rule, c.Conns)
		if err != nil {
			return nil, oracle.Verdict{}, err
		}
		c.Judge = judges.judge
		wg.Go(func() {
			outcomes[i], errs[i] = load.Open(ctx, c)
			verdicts[i] = judges.verdict()
		})
	}
	wg.Wait()
	for i := 1; i < len(loads); i++ {
		if outcomes[0] != nil && outcomes[i] != nil {
			outcomes[0].Add(outcomes[i])
		}
		verdicts[0].Add(verdicts[i])
	}
	return outcomes[0], verdicts[0], errors.Join(errs...)
}

// judges is one oracle for each client: an oracle is not safe for concurrent use,
// and clients get their answers at the same time.
type judges []*oracle.Oracle

func newJudges(rule oracle.Rule, clients int) (judges, error) {
	all := make(judges, clients)
	var err error
	for i := range all {
		if all[i], err = oracle.New(rule, 1, 1<<32); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (j judges) judge(client int, sent, answered time.Duration, status int) {
	if status == 0 {
		j[client].Lose(0, answered)
		return
	}
	j[client].JudgeWithin(0, sent, answered, !load.Denial(status))
}

func (j judges) verdict() (v oracle.Verdict) {
	for _, o := range j {
		v.Add(o.Verdict())
	}
	return v
}
