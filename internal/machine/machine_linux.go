package machine

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// read reads the identities and the clock of this start. A time namespace has a clock of
// its own, which counts as a start of its own.
func read() (machine, boot string, up time.Duration) {
	machine = hashed(firstLine("/etc/machine-id"))
	boot = firstLine("/proc/sys/kernel/random/boot_id")
	var ts unix.Timespec
	if boot == "" || unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return machine, "", 0
	}
	if space, err := os.Readlink("/proc/self/ns/time"); err == nil {
		boot += " " + space
	}
	return machine, hashed(boot), time.Duration(ts.Nano())
}

// hashed is an identity that tells nobody the machine's, as machine-id(5) asks for.
func hashed(id string) string {
	if id == "" {
		return ""
	}
	h := hmac.New(sha256.New, []byte(id))
	h.Write([]byte("fastlimit state"))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func firstLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(line)
}
