package explain

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/keytext"
	"github.com/fastlimit/fastlimit/internal/operator"
	"github.com/fastlimit/fastlimit/internal/strictjson"
	"github.com/fastlimit/fastlimit/policy"
)

// Done is the answer to a reset. Its names are part of the contract.
type Done struct {
	Rule string `json:"rule"`
	Key  string `json:"key"`
	Hint string `json:"hint,omitempty"` // what still denies the client
}

// Reset empties the bucket of a client, named in a body such as {"rule":"per-ip","key":["192.0.2.7"]}. by
// names the caller, for the log. The error has a method HTTPStatus.
func (n *Node) Reset(body []byte, by string, log *slog.Logger, now time.Time) (*Done, error) {
	var q struct {
		Rule string   `json:"rule"`
		Key  []string `json:"key"`
	}
	if err := strictjson.Decode(body, &q); err != nil {
		err = operator.WrongType(err, map[string]string{"rule": "a text", "key": "a list of texts"})
		return nil, operator.Refuse(http.StatusBadRequest, `the body is not a reset: %v; send for example {"rule":"per-ip","key":["192.0.2.7"]}`, err)
	}
	r, ok := n.Limiter.Rule(q.Rule)
	if !ok {
		return nil, operator.NoRule(q.Rule, n.ruleNames())
	}
	parts, err := n.Engine.RevealKey(r, n.Engine.ReadKey(r, q.Key), n.names(r.Name()))
	if err != nil {
		return nil, operator.Refuse(http.StatusUnprocessableEntity, "key: %s", operator.First(err))
	}
	limit, key, unlimited, err := n.Engine.LimitFromText(r, parts)
	switch {
	case err != nil:
		return nil, operator.Refuse(http.StatusUnprocessableEntity, "key: %s", operator.First(err))
	case unlimited:
		return nil, operator.Refuse(http.StatusUnprocessableEntity, "rule %s does not limit this client: an override exempts it", r.Name())
	}
	limit.Reset(key)
	d := &Done{Rule: r.Name(), Key: keytext.Join(n.Engine.HideKey(r, parts))}
	log.Info("bucket reset", slog.String("by", by), slog.String("rule", d.Rule), slog.String("key", d.Key))
	if f, err := n.Engine.Foresee(r, parts, 0, now); err == nil {
		switch {
		case f.List == policy.ListDeny:
			d.Hint = "it is on the deny list and remains refused"
		case f.Decision.Stage == fastlimit.StageBan:
			d.Hint = "it is still banned: use fastlimit unban"
		}
	}
	return d, nil
}
