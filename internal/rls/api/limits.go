package api

import "github.com/fastlimit/fastlimit/internal/rls/descriptor"

// ToConfig returns the configuration in a resource of a control plane.
func ToConfig(m *RateLimitConfig) descriptor.Config {
	return descriptor.Config{Name: m.GetName(), Domain: m.GetDomain(), Descriptors: toDescriptors(m.GetDescriptors())}
}

func toDescriptors(all []*ConfiguredDescriptor) []descriptor.Descriptor {
	out := make([]descriptor.Descriptor, len(all))
	for i, m := range all {
		out[i] = descriptor.Descriptor{
			Key: m.GetKey(), Value: m.GetValue(), Limit: toPolicy(m.GetRateLimit()), Descriptors: toDescriptors(m.GetDescriptors()),
			Shadow: m.GetShadowMode(), Quota: m.GetQuotaMode(), DetailedMetric: m.GetDetailedMetric(), Metadata: m.GetMetadata().AsMap(),
		}
	}
	return out
}

func toPolicy(m *RateLimitPolicy) *descriptor.Policy {
	if m == nil {
		return nil
	}
	p := &descriptor.Policy{
		Requests: m.GetRequestsPerUnit(), Unit: unit(m.GetUnit()), UnitText: m.GetUnit().String(), Unlimited: m.GetUnlimited(), Name: m.GetName(),
	}
	for _, r := range m.GetReplaces() {
		p.Replaces = append(p.Replaces, r.GetName())
	}
	return p
}
