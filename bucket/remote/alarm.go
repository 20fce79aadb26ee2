package remote

import (
	"sync/atomic"
	"time"
)

// alarmEvery bounds how often one class of misconfiguration is logged.
const alarmEvery = time.Minute

// alarm logs what somebody has to change, at most once a minute per class.
type alarm struct {
	config *Config
	last   map[*Class]*atomic.Int64 // UnixNano of the last line; the map never changes
}

func (a *alarm) init(c *Config) {
	a.config, a.last = c, make(map[*Class]*atomic.Int64, len(c.Classes))
	for _, class := range c.Classes {
		a.last[class] = new(atomic.Int64)
	}
}

func (a *alarm) raise(e *Error) {
	now, at := time.Now().UnixNano(), a.last[e.Class]
	last := at.Load()
	if last != 0 && now-last < int64(alarmEvery) || !at.CompareAndSwap(last, now) {
		return
	}
	attrs := []any{a.config.Name, a.config.Target, "class", e.Class.Name, "error", e.Err, "fix", e.Fix}
	if e.Key != "" {
		attrs = append(attrs, "key", e.Key[:min(len(e.Key), 128)])
	}
	a.config.Logger.Error(a.config.Name+" refuses its work: the configuration is wrong", attrs...)
}
