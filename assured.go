package fastlimit

// Assured tells how many units of key are sure to be admitted now, whatever filter and
// sketch make of the client: Remaining of the decision is exact or a lower bound, and
// TimeToEmpty is that of the exact bucket. It takes nothing and does not allocate.
//
// It holds by P1: only the exact bucket denies, and nobody else's requests are charged
// to it. So what fits the bucket as it is read here will fit until this client's own
// requests have used it up. A client that was never suspected has an empty bucket,
// which fits the whole burst however much filter and sketch have admitted before: that
// is the excess of P2.
//
// To a client that is banned none are: the decision is the denial.
//
// With a shared exact tier other nodes charge the bucket too, and this one knows only
// what the store has answered it: then Remaining is [RemainingUnknown].
func (r *Rule) Assured(key Key) Decision {
	r.check(key)
	if v, banned := r.banned(key.digest(), r.buckets.Clock.Late(r.buckets.Clock.Now())); banned {
		return v
	}
	if r.shared != nil {
		return admitUnchecked(StageExact)
	}
	now := r.buckets.Clock.Late(r.buckets.Clock.Now())
	return r.buckets.Decision(key.digest(), StageExact, true, r.buckets.Table.Lookup(key.digest()), now, 0)
}
