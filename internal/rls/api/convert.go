package api

import (
	"fmt"

	"github.com/fastlimit/fastlimit/internal/rls/descriptor"
	"github.com/fastlimit/fastlimit/internal/rls/service"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
)

// ToRequest returns the request of a message. It shares the texts of the message.
func ToRequest(m *RateLimitRequest) *service.Request {
	r := &service.Request{Domain: m.GetDomain(), Hits: uint64(m.GetHitsAddend()), Descriptors: make([]service.Descriptor, len(m.GetDescriptors()))}
	entries := 0
	for _, d := range m.GetDescriptors() {
		entries += len(d.GetEntries())
	}
	all := make([]descriptor.Entry, 0, entries)
	for i, d := range m.GetDescriptors() {
		to, start := &r.Descriptors[i], len(all)
		for _, e := range d.GetEntries() {
			all = append(all, descriptor.Entry{Key: e.GetKey(), Value: e.GetValue()})
		}
		to.Entries = all[start:len(all):len(all)]
		if h := d.GetHitsAddend(); h != nil {
			to.OwnHits = &h.Value
		}
		if o := d.GetLimit(); o != nil {
			to.Override = &service.Override{Requests: o.GetRequestsPerUnit(), Unit: unit(o.GetUnit())}
		}
	}
	return r
}

// unit returns 0, which is none, for numbers that Envoy does not have.
func unit(u Unit) descriptor.Unit {
	if u < Unit_SECOND || u > Unit_WEEK {
		return 0
	}
	return descriptor.Unit(u)
}

// FromResponse returns the message of a response. It fails on metadata that no message can
// carry, which files cannot contain.
func FromResponse(r *service.Response) (*RateLimitResponse, error) {
	m := &RateLimitResponse{OverallCode: code(r.Over), Statuses: make([]*RateLimitResponse_DescriptorStatus, len(r.Statuses))}
	for i := range r.Statuses {
		st := &r.Statuses[i]
		to := &RateLimitResponse_DescriptorStatus{Code: code(st.Over), LimitRemaining: st.Remaining}
		if l := st.Limit; l != nil {
			to.CurrentLimit = &RateLimitResponse_RateLimit{RequestsPerUnit: l.Requests, Unit: Unit(l.Unit), Name: l.Name}
			to.DurationUntilReset = durationpb.New(st.Reset)
		}
		m.Statuses[i] = to
	}
	for _, h := range r.Headers {
		m.ResponseHeadersToAdd = append(m.ResponseHeadersToAdd, &HeaderValue{Key: h.Key, Value: h.Value})
	}
	if r.Metadata != nil {
		s, err := structpb.NewStruct(r.Metadata)
		if err != nil {
			return nil, fmt.Errorf("fastlimit/rls: metadata: %w", err)
		}
		m.DynamicMetadata = s
	}
	return m, nil
}

func code(over bool) RateLimitResponse_Code {
	if over {
		return RateLimitResponse_OVER_LIMIT
	}
	return RateLimitResponse_OK
}
