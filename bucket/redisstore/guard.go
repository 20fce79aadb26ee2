package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// guard converts panics of go-redis to errors: it panics on some answers of a type other
// than the command's (FuzzServer).
type guard struct{}

// DialHook implements [redis.Hook].
func (guard) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (guard) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) (err error) {
		defer recovered(&err)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (guard) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) (err error) {
		defer recovered(&err)
		return next(ctx, cmds)
	}
}

// recovered must be deferred.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = answerError(fmt.Sprint("an answer that go-redis cannot read: ", p))
	}
}
