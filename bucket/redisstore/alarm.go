package redisstore

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// alarmEvery bounds how often one class of misconfiguration is logged.
const alarmEvery = time.Minute

// alarm logs what somebody has to change, at most once a minute per class.
type alarm struct {
	log    *slog.Logger
	target string
	last   [classes]atomic.Int64 // UnixNano of the last line
}

func (a *alarm) raise(e *Error, key string) {
	now := time.Now().UnixNano()
	last := a.last[e.Class].Load()
	if last != 0 && now-last < int64(alarmEvery) || !a.last[e.Class].CompareAndSwap(last, now) {
		return
	}
	attrs := []any{"redis", a.target, "class", e.Class.String(), "error", e.Err, "fix", e.fixText()}
	if e.Class == WrongType || e.Class == Corrupt {
		attrs = append(attrs, "key", key[:min(len(key), 128)])
	}
	a.log.Error("redis refuses its work: the configuration is wrong", attrs...)
}
