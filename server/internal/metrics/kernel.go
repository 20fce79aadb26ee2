package metrics

import (
	"github.com/fastlimit/fastlimit/ban/feed"
	"github.com/fastlimit/fastlimit/internal/prom"
)

// Kernel describes a kernel that drops packets of banned clients.
type Kernel struct {
	feed.Stats
	Refused map[string]uint64 // by reason, replacing those of Stats
	Resets  uint64            // connections
}

// ofKernel are its metrics, which have no series without one.
var ofKernel = []prom.Metric[Stats]{
	kernelLevel("kernel_up", "1 while the kernel drops the packets of banned clients; 0 in shadow mode, and while it refuses them.",
		func(k *Kernel) float64 {
			if k.Up {
				return 1
			}
			return 0
		}),
	kernelLevel("kernel_elements", "Addresses and prefixes whose packets the kernel drops, or would drop in shadow mode.", func(k *Kernel) float64 { return float64(k.Held) }),
	kernelLevel("kernel_elements_max", "The most addresses and prefixes that the kernel may have.", func(k *Kernel) float64 { return float64(k.Max) }),
	kernelLevel("kernel_pending", "Changes that are not in the kernel yet.", func(k *Kernel) float64 { return float64(k.Pending) }),
	kernelSum("kernel_bans_total", "Bans passed to the kernel, or in shadow mode those that would have been, including prolonged ones.", func(k *Kernel) uint64 { return k.Added }),
	kernelSum("kernel_dropped_packets_total", "Packets from banned clients that the kernel dropped.", func(k *Kernel) uint64 { return k.Packets }),
	kernelSum("kernel_dropped_bytes_total", "Bytes of these packets.", func(k *Kernel) uint64 { return k.Bytes }),
	kernelSum("kernel_connections_reset_total", "Connections of banned clients that were reset.", func(k *Kernel) uint64 { return k.Resets }),
	kernelSum("kernel_refills_total", "Times that the kernel had lost the table and got all bans again.", func(k *Kernel) uint64 { return k.Refills }),
	kernelBy("kernel_errors_total", "Failures to update the kernel's table, by class.", "class", func(k *Kernel) map[string]uint64 { return k.Errors }),
	kernelBy("kernel_refused_total", "Denials of banned clients that are not in the kernel's table, by reason: they are answered, and keep their connections.", "reason",
		func(k *Kernel) map[string]uint64 { return k.Refused }),
}

func kernelLevel(name, help string, read func(*Kernel) float64) prom.Metric[Stats] {
	return prom.Gauges(name, help, nil, func(s *Stats, set func(float64, ...string)) {
		if s.Kernel != nil {
			set(read(s.Kernel))
		}
	})
}

func kernelSum(name, help string, read func(*Kernel) uint64) prom.Metric[Stats] {
	return prom.Counters(name, help, nil, func(s *Stats, add func(uint64, ...string)) {
		if s.Kernel != nil {
			add(read(s.Kernel))
		}
	})
}

func kernelBy(name, help, label string, read func(*Kernel) map[string]uint64) prom.Metric[Stats] {
	return prom.Counters(name, help, []string{label}, func(s *Stats, add func(uint64, ...string)) {
		if s.Kernel != nil {
			for of, n := range read(s.Kernel) {
				add(n, of)
			}
		}
	})
}
