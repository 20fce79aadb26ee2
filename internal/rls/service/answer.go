package service

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// answer joins what the descriptors of a request got.
func (s *Service) answer(now time.Duration, req *Request, w *work) *Response {
	resp := &Response{Statuses: make([]Status, len(w.applied))}
	limited, quotas, overQuotas := 0, 0, 0
	for i := range w.applied {
		a, status := &w.applied[i], &resp.Statuses[i]
		if a.unlimited {
			status.Remaining = math.MaxUint32
			continue
		}
		quota := s.cfg.Quota
		if a.limit != nil {
			*status = w.status(now, a)
			s.stats.Add(a.series, req.hits(&req.Descriptors[i]), w.hits[a.hit].Count, a.limit.Requests, a.limit.Shadow)
			quota = quota || a.limit.Quota
		}
		if quota {
			quotas++
		}
		switch {
		case status.Over && quota:
			overQuotas++
		case status.Over:
			limited++
		}
	}
	resp.Over = limited > 0 || quotas > 0 && quotas == overQuotas
	if resp.Over && s.cfg.Shadow {
		resp.Over = false
		s.stats.GlobalShadow.Add(1)
	}
	if s.cfg.Headers {
		resp.Headers = s.headers(w.closest(resp.Statuses, s.cfg.Quota))
	}
	if s.cfg.Metadata {
		resp.Metadata = metadata(req, w, resp.Statuses)
	}
	return resp
}

// status is that of a descriptor with a limit.
func (w *work) status(now time.Duration, a *applied) Status {
	unit := a.limit.Unit.Duration()
	st := Status{
		Limit: &Current{Requests: a.limit.Requests, Unit: a.limit.Unit, Name: a.limit.Name},
		Reset: unit - now.Truncate(time.Second)%unit,
	}
	if hit := w.hits[a.hit]; !over(hit) {
		st.Remaining = a.limit.Requests - uint32(hit.Count)
	} else if !a.limit.Shadow {
		st.Over = true
	}
	return st
}

// closest returns the status that headers tell of: the last that is over its limit, else
// the first of those with the least left; nil if no limit applied.
func (w *work) closest(all []Status, quota bool) (closest *Status) {
	least := uint32(math.MaxUint32)
	for i := range all {
		st := &all[i]
		if st.Limit == nil {
			continue
		}
		if st.Remaining < least {
			closest, least = st, st.Remaining
		}
		if st.Over && !quota && !w.applied[i].limit.Quota {
			closest, least = st, 0
		}
	}
	return closest
}

func (s *Service) headers(st *Status) []Header {
	if st == nil {
		return nil
	}
	return []Header{
		{s.cfg.LimitHeader, strconv.FormatUint(uint64(st.Limit.Requests), 10)},
		{s.cfg.RemainingHeader, strconv.FormatUint(uint64(st.Remaining), 10)},
		{s.cfg.ResetHeader, strconv.FormatInt(int64(st.Reset/time.Second), 10)},
	}
}

// metadata is what Envoy's filters and access logs may use: the request, and what the
// limits that are not exceeded have configured.
func metadata(req *Request, w *work, all []Status) map[string]any {
	descriptors := make([]any, len(req.Descriptors))
	for i := range req.Descriptors {
		d := &req.Descriptors[i]
		entries := make([]any, len(d.Entries))
		for j, e := range d.Entries {
			entries[j] = e.Key + "=" + e.Value
		}
		fields := map[string]any{"entries": entries}
		if o := d.Override; o != nil {
			fields["limit"] = o.text()
		}
		if d.OwnHits != nil {
			fields["hitsAddend"] = float64(*d.OwnHits)
		}
		descriptors[i] = fields
	}
	out := map[string]any{"domain": req.Domain, "descriptors": descriptors}
	if req.Hits != 0 {
		out["hitsAddend"] = float64(req.Hits)
	}
	configured := map[string]any{}
	for i := range all {
		if limit := w.applied[i].limit; limit != nil && !all[i].Over {
			merge(configured, limit.Metadata)
		}
	}
	if len(configured) > 0 {
		out["metadata"] = configured
	}
	return out
}

// text is that of the protobuf message.
func (o *Override) text() string {
	unit := "unit:" + strings.ToUpper(o.Unit.String())
	if o.Requests == 0 {
		return unit
	}
	return "requests_per_unit:" + strconv.FormatUint(uint64(o.Requests), 10) + " " + unit
}

// merge adds what a map lacks, maps within it too.
func merge(into, from map[string]any) {
	for k, v := range from {
		have, there := into[k]
		inner, isMap := v.(map[string]any)
		switch {
		case !there && isMap: // a copy: what was configured is not to change
			fresh := map[string]any{}
			merge(fresh, inner)
			into[k] = fresh
		case !there:
			into[k] = v
		case isMap:
			if haveMap, ok := have.(map[string]any); ok {
				merge(haveMap, inner)
			}
		}
	}
}
