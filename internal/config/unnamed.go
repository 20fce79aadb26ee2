package config

import "github.com/fastlimit/fastlimit/policy"

// onUnnamed reads what to do where a trusted proxy names no client or no
// original request.
func (d *decoder) onUnnamed(n node) {
	all := [...]policy.OnUnnamed{policy.UnnamedPeer, policy.UnnamedSkip, policy.UnnamedDeny}
	if i, ok := d.choice(n, all[0].String(), all[1].String(), all[2].String()); ok {
		d.cfg.Policy.OnUnnamed, d.cfg.unnamedGiven = all[i], true
	}
}
