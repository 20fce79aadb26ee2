package service

import (
	"encoding/binary"
	"errors"

	"github.com/fastlimit/fastlimit/internal/rls/descriptor"
)

// Request is a RateLimitRequest.
type Request struct {
	Domain      string
	Descriptors []Descriptor
	Hits        uint64 // of descriptors that have none of their own; 0 counts as 1
}

// Descriptor is one of the descriptors of a request.
type Descriptor struct {
	Entries  []descriptor.Entry
	Override *Override // in place of the configured limit
	OwnHits  *uint64   // nil: those of the request; 0 only asks
}

// Override is a limit that a request brings along.
type Override struct {
	Requests uint32
	Unit     descriptor.Unit
}

// Errors of requests, which are answered with a failure of the call.
var (
	errDomain      = errors.New("rate limit domain must not be empty")
	errDescriptors = errors.New("rate limit descriptor list must not be empty")
	errUnit        = errors.New("rate limit override has no known unit: want second, minute, hour, day, week, month or year")
	// ErrNoLimits means that no configuration has been loaded yet.
	ErrNoLimits = errors.New("no rate limit configuration loaded")
)

func (r *Request) check() error {
	switch {
	case r.Domain == "":
		return errDomain
	case len(r.Descriptors) == 0:
		return errDescriptors
	}
	for i := range r.Descriptors {
		if o := r.Descriptors[i].Override; o != nil && !o.Unit.Valid() {
			return errUnit
		}
	}
	return nil
}

// hits returns what a descriptor adds.
func (r *Request) hits(d *Descriptor) uint64 {
	if d.OwnHits != nil {
		return *d.OwnHits
	}
	return max(1, r.Hits)
}

// appendKey appends the key of a descriptor's counter: the domain and all entries, each
// framed.
func appendKey(key []byte, domain string, d *Descriptor, m *descriptor.Match) []byte {
	key = appendFramed(key, domain)
	for i := range d.Entries {
		key = appendFramed(appendFramed(key, d.Entries[i].Key), counted(d, i, m))
	}
	return key
}

func appendFramed(key []byte, s string) []byte {
	return append(binary.AppendUvarint(key, uint64(len(s))), s...)
}

// appendName appends upstream's name of the same counter, in which parts are not told
// apart.
func appendName(name []byte, domain string, d *Descriptor, m *descriptor.Match) []byte {
	name = append(append(name, domain...), '_')
	for i := range d.Entries {
		name = append(append(name, d.Entries[i].Key...), '_')
		name = append(append(name, counted(d, i, m)...), '_')
	}
	return name
}

// counted returns the value of an entry, or the wildcard in its place if that shares a
// counter among its values.
func counted(d *Descriptor, i int, m *descriptor.Match) string {
	if m.Limit != nil {
		if shared, ok := m.Shared(i, d.Entries[i]); ok {
			return shared
		}
	}
	return d.Entries[i].Value
}
