package config

import (
	"os"
	"testing"
)

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	const v2, v1 = "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"
	const info = "MemTotal:       16384 kB\nMemFree:  1 kB\n"
	for _, tt := range []struct {
		files map[string]string
		want  int64
	}{
		{nil, 0},
		{map[string]string{"/proc/meminfo": info}, 16 << 20},
		{map[string]string{"/proc/meminfo": info, v2: "1048576\n"}, 1 << 20},
		{map[string]string{"/proc/meminfo": info, v2: "max\n"}, 16 << 20},
		{map[string]string{"/proc/meminfo": info, v1: "9223372036854771712\n"}, 16 << 20},
		{map[string]string{"/proc/meminfo": "?", v1: "1000\n"}, 1000},
	} {
		got := memoryLimit(func(path string) ([]byte, error) {
			if s, ok := tt.files[path]; ok {
				return []byte(s), nil
			}
			return nil, os.ErrNotExist
		})
		if got != tt.want {
			t.Errorf("%v: %d, want %d", tt.files, got, tt.want)
		}
	}
}
