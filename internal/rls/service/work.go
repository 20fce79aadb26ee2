package service

import (
	"github.com/fastlimit/fastlimit/internal/rls/count"
	"github.com/fastlimit/fastlimit/internal/rls/descriptor"
	"github.com/fastlimit/fastlimit/internal/rls/stats"
)

// work is what an answer is worked out with. It is used again, by one request at a time.
type work struct {
	applied []applied // to each descriptor
	match   descriptor.Match
	keys    []byte
	hits    []count.Hit // of the descriptors with a limit
}

// applied is what applies to a descriptor.
type applied struct {
	limit     *descriptor.Limit // nil: none
	series    *stats.Series
	unlimited bool
	key       [2]int // where it is in keys
	name      int    // where its name ends, which follows it
	hit       int    // which of hits it is
}

// find looks up the limits of all descriptors and prepares the hits to count.
func (w *work) find(limits *inForce, req *Request, s *Service) {
	w.applied, w.keys, w.hits = w.applied[:0], w.keys[:0], w.hits[:0]
	var replaced map[string]bool
	for i := range req.Descriptors {
		var a applied
		if a.limit = w.limit(limits.Limits, req.Domain, &req.Descriptors[i]); a.limit != nil {
			for _, name := range a.limit.Replaces {
				if replaced == nil {
					replaced = map[string]bool{}
				}
				replaced[name] = true
			}
			if a.unlimited = a.limit.Unlimited; a.unlimited {
				a.limit = nil
			} else {
				a.key[0] = len(w.keys)
				w.keys = appendKey(w.keys, req.Domain, &req.Descriptors[i], &w.match)
				a.key[1] = len(w.keys)
				if s.counter.Named() {
					w.keys = appendName(w.keys, req.Domain, &req.Descriptors[i], &w.match)
				}
				a.name = len(w.keys)
				a.series = w.series(limits, req.Domain, &req.Descriptors[i], s.stats)
			}
		}
		w.applied = append(w.applied, a)
	}
	for i := range w.applied {
		a := &w.applied[i]
		if a.limit != nil && a.limit.Name != "" && replaced[a.limit.Name] {
			a.limit = nil
		}
		if a.limit != nil {
			a.hit = len(w.hits)
			w.hits = append(w.hits, count.Hit{
				Key: w.keys[a.key[0]:a.key[1]], Name: w.keys[a.key[1]:a.name], Unit: a.limit.Unit,
				Hits: req.hits(&req.Descriptors[i]), Limit: uint64(a.limit.Requests),
			})
		}
	}
}

// limit returns that of a descriptor: the one that it brings along, if its domain is known,
// else the configured one.
func (w *work) limit(limits *descriptor.Limits, domain string, d *Descriptor) *descriptor.Limit {
	if d.Override == nil {
		limits.Find(domain, d.Entries, &w.match)
		return w.match.Limit
	}
	w.match.Limit = nil
	if !limits.Has(domain) {
		return nil
	}
	return &descriptor.Limit{Requests: d.Override.Requests, Unit: d.Override.Unit}
}

// series returns where the descriptor that was looked up last is counted.
func (w *work) series(limits *inForce, domain string, d *Descriptor, all *stats.Registry) *stats.Series {
	if w.match.Limit != nil && !w.match.ByRequest() {
		return limits.series[w.match.Limit]
	}
	labels := stats.Labels{Domain: domain}
	for i, to := range []*string{&labels.Key1, &labels.Key2} {
		switch {
		case i >= len(d.Entries):
		case w.match.Limit != nil:
			*to = w.match.Step(i, d.Entries[i])
		case d.Entries[i].Value == "":
			*to = d.Entries[i].Key
		default:
			*to = d.Entries[i].Key + "_" + d.Entries[i].Value
		}
	}
	return all.Series(labels)
}

// over reports whether a hit is over its limit.
func over(h count.Hit) bool { return h.Count > h.Limit }
