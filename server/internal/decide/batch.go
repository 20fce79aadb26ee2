package decide

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/internal/strictjson"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/conn"
	"github.com/fastlimit/fastlimit/server/internal/guard"
	"github.com/fastlimit/fastlimit/server/internal/text"
	"github.com/valyala/fasthttp"
)

const (
	// BatchPath is where batches are posted.
	BatchPath = "/v1/decide"
	// MaxBatchBytes bounds the body of a batch, maxBatch its questions.
	MaxBatchBytes = 1 << 20
	maxBatch      = 1000
)

// decideRequest is one question of a batch.
type decideRequest struct {
	Rule string   `json:"rule"`
	Key  []string `json:"key"`
	// Cost is a number of units; if absent, the cost of the rule.
	Cost json.RawMessage `json:"cost"`
	Peek bool            `json:"peek"`
}

type decideBatch struct {
	Requests []decideRequest `json:"requests"`
}

type decideResult struct {
	Allowed bool `json:"allowed"`
	// Remaining is null if no exact bucket knows it.
	Remaining *int64 `json:"remaining"`
	// RetryAfter is in seconds, 0 if allowed.
	RetryAfter float64 `json:"retry_after"`
	Stage      string  `json:"stage"`
}

type decideReply struct {
	Results []decideResult `json:"results"`
}

// question is a request of a batch that was found valid.
type question struct {
	rule *fastlimit.Rule
	key  fastlimit.Key
	cost uint64 // at the rule's scale
	peek bool

	unlimited bool                // by an override of the rule, which is not asked
	listed    *fastlimit.Decision // by a list or an operator's ban, which decides before the rule
}

// Batch answers a batch of questions, all with one snapshot. Everything is checked before anything is
// charged: after an error nothing was.
func (s *Service) Batch(ctx context.Context, body []byte) ([]byte, error) {
	return s.current.Load().batch(ctx, body)
}

func (s *Snapshot) batch(ctx context.Context, body []byte) ([]byte, error) {
	questions, err := s.parseBatch(body)
	if err != nil {
		return nil, err
	}
	reply := decideReply{Results: make([]decideResult, len(questions))}
	for i := range questions {
		reply.Results[i] = questions[i].answer(ctx)
	}
	return json.Marshal(reply)
}

func (s *Snapshot) parseBatch(body []byte) ([]question, error) {
	if err := strictjson.Check(body); err != nil {
		return nil, err // for the client
	}
	var batch decideBatch
	switch err := strictjson.Decode(body, &batch); {
	case errors.Is(err, strictjson.ErrMore):
		return nil, errors.New("there is more after the batch: send one JSON object")
	case err != nil:
		return nil, fmt.Errorf(`the body is not a batch: %w; send {"requests":[{"rule":"per-ip","key":["192.0.2.7"]}]}`, err)
	}
	if n := len(batch.Requests); n == 0 || n > maxBatch {
		return nil, fmt.Errorf("requests has %d items: send 1 to %d", n, maxBatch)
	}
	questions := make([]question, len(batch.Requests))
	for i := range batch.Requests {
		q, err := s.parseQuestion(&batch.Requests[i])
		if err != nil {
			return nil, fmt.Errorf("requests[%d]: %w", i, err)
		}
		questions[i] = q
	}
	return questions, nil
}

func (s *Snapshot) parseQuestion(r *decideRequest) (question, error) {
	rule, ok := s.settings.Limiter.Rule(r.Rule)
	if !ok {
		return question{}, fmt.Errorf("rule %q is not configured", text.Printable(r.Rule))
	}
	limit, key, unlimited, err := s.engine.LimitFromText(rule, r.Key)
	if err != nil {
		return question{}, fmt.Errorf("key: %w", err)
	}
	if unlimited {
		limit = rule
	}
	q := question{rule: limit, key: key, cost: rule.Config().Cost, peek: r.Peek, unlimited: unlimited}
	if list, d := s.engine.Listed(rule, r.Key, time.Now()); list != policy.ListNone {
		q.listed = &d
	}
	if len(r.Cost) > 0 && string(r.Cost) != "null" {
		if q.cost, err = parseCost(rule, string(r.Cost)); err != nil {
			return question{}, err
		}
	}
	if q.cost > (*engine.Rule)(limit).MaxCost() && !unlimited {
		config := limit.Config()
		cost := config.FormatCost(q.cost)
		if q.cost == math.MaxUint64 { // which means no cost
			cost = text.Printable(string(r.Cost))
		}
		return question{}, fmt.Errorf("cost %s is above the burst of %d: it would never be admitted; lower it, or raise burst", cost, config.Burst)
	}
	return q, nil
}

func parseCost(rule *fastlimit.Rule, cost string) (uint64, error) {
	n, ok := policy.ParseCost([]byte(cost), (*engine.Rule)(rule).CostScale())
	switch {
	case ok:
		return n, nil
	case strings.Trim(cost, "0.") == "":
		return 0, errors.New(`cost 0: want at least 1; to ask without taking, send "peek": true`)
	case strings.Trim(cost, "0123456789") == "": // too many digits for an integer
		return math.MaxUint64, nil
	case (*engine.Rule)(rule).CostScale() > 1:
		return 0, fmt.Errorf("cost %s: want a number of units with up to three decimals", text.Printable(cost))
	}
	return 0, fmt.Errorf("cost %s: want a whole number of units, or give the rule fractions in cost_from", text.Printable(cost))
}

func (q *question) answer(ctx context.Context) decideResult {
	var d fastlimit.Decision
	switch {
	case q.listed != nil:
		d = *q.listed
	case q.unlimited && q.peek:
		d = fastlimit.Decision{Outcome: limit.Outcome{Allowed: true, Stage: fastlimit.StageList}, Remaining: fastlimit.RemainingUnknown}
	case q.unlimited:
		d = (*engine.Rule)(q.rule).Unlimited()
	case q.peek:
		d = q.rule.Peek(q.key, q.cost)
	default:
		d = q.rule.Take(ctx, q.key, q.cost)
	}
	r := decideResult{Allowed: d.Allowed, Stage: d.Stage.String(), RetryAfter: d.RetryAfter.Seconds()}
	if d.Remaining != fastlimit.RemainingUnknown {
		r.Remaining = &d.Remaining
	}
	if q.listed == nil && q.rule.Config().Mode == fastlimit.Shadow && !r.Allowed {
		r.Allowed, r.RetryAfter = true, 0 // it has been counted
	}
	return r
}

// answerBatch serves a batch on a traffic listener.
func (s *Service) answerBatch(ctx *fasthttp.RequestCtx, snap *Snapshot) {
	content, bad, cause := s.wholeBody(ctx, MaxBatchBytes)
	if bad != nil {
		s.refuse(ctx, bad, cause)
		return
	}
	if units, some := s.noted(); some {
		defer s.noteAnswer(ctx, nil, nil, units)
	}
	h := &ctx.Request.Header
	call := guard.Call{
		Method: string(h.Method()), ContentType: string(h.ContentType()), HasBody: true,
		Site: string(h.Peek("Sec-Fetch-Site")), Origin: string(h.Peek("Origin")), Host: string(h.Host()),
	}
	status, err := call.Check()
	var reply []byte
	if err == nil {
		status = http.StatusBadRequest
		reply, err = snap.batch(context.Background(), content)
	}
	ctx.Response.Header.Set(denial.CacheControl, denial.NoStore)
	if err != nil {
		if status == http.StatusMethodNotAllowed {
			ctx.Response.Header.Set("Allow", http.MethodPost)
		}
		ctx.SetStatusCode(status)
		ctx.SetContentType(denial.ProblemMediaType)
		ctx.SetBody(denial.Problem(status, err.Error()))
		// The request was understood, so its connection stays.
		s.bad.batch.Count.Add(1)
		s.badLog.Note(&s.bad.batch.Reason, conn.PeerAddr(ctx), err)
		return
	}
	ctx.SetContentType("application/json")
	ctx.SetBody(reply)
}
